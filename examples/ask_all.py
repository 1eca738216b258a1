"""Start a server with a small model, and run every ``ask_*.py`` example on it.

The first script finds no notes in the cache for its first question. All that follow do: a
document's tokens are the same on every surface.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from prepare_model import default_model_dir, prepare
from server import Server, ServerError, exit_on_signals, free_port

HERE = Path(__file__).resolve().parent
LOG = HERE.parent / "build" / "demo" / "server-examples.log"
SCRIPTS = sorted(set(HERE.glob("ask_*.py")) - {Path(__file__).resolve()})


def main() -> None:
    model = str(prepare(default_model_dir()))
    server = Server(["--model-path", model, "--chunk-cache", "lazy"], port=free_port(), log=LOG)
    print(f"starting the server (log: {LOG})\n", flush=True)
    with exit_on_signals(), server:
        try:
            server.wait_until_ready(lambda elapsed: None)
            for script in SCRIPTS:
                print(f"=== examples/{script.name} --base-url {server.url}\n", flush=True)
                command = [sys.executable, str(script), "--base-url", server.url]
                subprocess.run(command, check=True)
        except (ServerError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"{server.log_tail()}\n\n{error}") from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None


if __name__ == "__main__":
    main()

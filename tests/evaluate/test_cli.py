"""The command line: what is refused before anything starts, and provenance."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_lazy import provenance
from sglang_lazy.evaluate.cli import main

from ..engines import free_port
from .scripted import examples
from .test_convert import HOTPOT


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(e.to_json()) + "\n" for e in examples(2)))
    return path


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dev.json").write_text(json.dumps([HOTPOT]))
    target = tmp_path / "new" / "out.jsonl"
    assert main(["convert", "hotpotqa", str(tmp_path / "dev.json"), str(target)]) == 0
    assert "1 questions" in capsys.readouterr().out
    assert json.loads(target.read_text())["kind"] == "comparison"


@pytest.mark.parametrize(
    "options, fault",
    [
        (["--modes", "lazy"], "no mode"),
        (["--plot", "x.txt"], "--plot"),
        (["--record", "x", "--modes", "sink"], "add full"),
        (["--template", "/does/not/exist"], "exist"),
        (["--chat-template-kwargs", "[]"], "JSON object"),
        (["--template", "x", "--message", "y"], "--message"),
        (["--", "--dtype", "float32"], "--model-path"),
    ],
)
def test_bad_use(
    data: Path, options: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(data), "--url", f"http://127.0.0.1:{free_port()}", *options]) == 2
    assert fault in capsys.readouterr().err


def test_no_abbreviations(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key given as --api would be recorded with the command."""
    with pytest.raises(SystemExit):
        main(["run", str(data), "--url", "http://127.0.0.1:1", "--api", "secret"])
    assert "unrecognized arguments: --api secret" in capsys.readouterr().err


def test_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "x"}\n')
    assert main(["run", str(path), "--url", "http://127.0.0.1:1"]) == 2
    assert "line 1: 'documents'" in capsys.readouterr().err


def test_module_is_a_program() -> None:
    command = [sys.executable, "-m", "sglang_lazy.evaluate", "--help"]
    assert "convert" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_command_line_leaves_out_where_results_go(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["run", "a b.jsonl", "--out", "/x", "--record=/y", "--modes", "full", "--api-key", "s"]
    monkeypatch.setattr(sys, "argv", ["p", *given])
    left_out = ("--out", "--record", "--api-key")
    expected = "python -m p run 'a b.jsonl' --modes full"
    assert provenance.command_line(["python", "-m", "p"], left_out) == expected


def test_commit_is_that_of_the_file(tmp_path: Path) -> None:
    """A file that merely lies in a repository, as an installed package may, has no commit."""

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        command = ["git", *identity, *arguments]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    (tmp_path / "tracked").touch()
    (tmp_path / "other").touch()
    assert provenance.commit(tmp_path / "tracked") == "unknown"
    git("init", "-q")
    git("add", "tracked")
    git("commit", "-q", "-m", "x")
    assert provenance.commit(tmp_path / "tracked") == git("rev-parse", "--short", "HEAD")
    assert provenance.commit(tmp_path / "other") == "unknown"

"""``python -m sglang_lazy.evaluate``. Engines start processes that import this file again."""

from sglang_lazy.evaluate.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

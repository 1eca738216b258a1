"""The recipe's modules lie side by side in a folder of scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "block_finetune"))

"""The site builds without a warning, and its pictures are whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .blocks import REPOSITORY

IMAGES = sorted((REPOSITORY / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_site_builds(tmp_path: Path) -> None:
    """Links and anchors between pages are checked on the way."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "troubleshooting" / "index.html").is_file()


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_picture(image: Path) -> None:
    """Has a name for those who do not see it, and is shown somewhere."""
    root = ElementTree.parse(image).getroot()
    assert root.find(f"{SVG}title") is not None and root.find(f"{SVG}desc") is not None
    pages = (page.read_text() for page in (REPOSITORY / "docs").glob("*.md"))
    assert any(f"images/{image.name}" in page for page in pages)

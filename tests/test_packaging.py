"""The wheel: what is in it, and that it serves from an environment of its own."""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from .engines import Server, free_port, kill_group

REPOSITORY = Path(__file__).parents[1]
# Where each part of the wheel comes from.
SOURCES = {
    "sglang_lazy": "sglang_lazy",
    "kernels/ops": "sglang_lazy/kernels",
    "patches": "sglang_lazy/patches",
}
ENTRY_POINTS = {
    "sglang.srt.plugins": ("sglang_lazy", "sglang_lazy.plugin:register"),
    "sglang.srt.platforms": ("sglang_lazy_cpu", "sglang_lazy.platform:activate"),
}


def run(*command: object, cwd: Path) -> str:
    """Run a program outside of this test's environment and return what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, where no earlier build can leak into it."""
    work_dir = tmp_path_factory.mktemp("wheel")
    tree = work_dir / "tree"
    for name in SOURCES:
        shutil.copytree(
            REPOSITORY / name, tree / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, tree)
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run(*pip_wheel, "--wheel-dir", work_dir, tree, cwd=work_dir)
    (path,) = work_dir.glob("sglang_lazy-*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds the wheel and, by reference, all else.

    A path file adds the present site-packages without reading the path files there,
    so its editable installation of this package stays out.
    """
    root = tmp_path_factory.mktemp("environment")
    venv.create(root, with_pip=False, symlinks=True)
    scheme = {"base": str(root), "platbase": str(root)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    pip_install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index"]
    run(*pip_install, "--target", site_packages, wheel, cwd=root)
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Path(sysconfig.get_path("scripts", "venv", scheme)) / "python"


def test_wheel_holds_every_module(wheel: Path) -> None:
    expected = {"sglang_lazy/py.typed"}
    for source, target in SOURCES.items():
        modules = (REPOSITORY / source).rglob("*.py")
        expected |= {
            f"{target}/{module.relative_to(REPOSITORY / source).as_posix()}" for module in modules
        }
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


def test_wheel_names_its_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        text = archive.read(member).decode()
    for group, (name, value) in ENTRY_POINTS.items():
        assert f"[{group}]\n{name} = {value}\n" in text


def test_installed_modules_are_the_wheels(python: Path, tmp_path: Path) -> None:
    script = "import sglang_lazy.kernels, sglang_lazy.patches, sglang_lazy as package; " + (
        "print(*package.__path__, *package.kernels.__path__, *package.patches.__path__)"
    )
    root = python.parents[1]
    for path in run(python, "-c", script, cwd=tmp_path).split():
        assert Path(path).is_relative_to(root)


def test_wheel_works_in_the_root_of_a_checkout(python: Path) -> None:
    run(python, "-c", "import sglang_lazy.kernels, sglang_lazy.patches", cwd=REPOSITORY)


@pytest.mark.parametrize("group", ENTRY_POINTS)
def test_entry_points_load(python: Path, tmp_path: Path, group: str) -> None:
    point = EntryPoint(*ENTRY_POINTS[group], group)
    script = (
        "import importlib.metadata as metadata\n"
        f"(point,) = metadata.entry_points(group={group!r}, name={point.name!r})\n"
        "print(point.value, point.load().__name__)"
    )
    assert run(python, "-c", script, cwd=tmp_path) == f"{point.value} {point.attr}"


CHECK_KERNELS = "import kernels; assert callable(kernels.get_kernel), kernels.__path__"


class TestHuggingFaceKernels:
    """SGLang imports the PyPI package `kernels`; our folder of that name must not hide it."""

    def test_from_the_repository_root(self) -> None:
        run(sys.executable, "-c", CHECK_KERNELS, cwd=REPOSITORY)

    def test_under_pytest(self, tmp_path: Path) -> None:
        module = tmp_path / "test_kernels.py"
        module.write_text(f"def test_kernels():\n    {CHECK_KERNELS}\n")
        pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        run(*pytest_here, "--rootdir", tmp_path, "-c", os.devnull, module, cwd=REPOSITORY)


@contextlib.contextmanager
def launched(python: Path, work_dir: Path, *options: object) -> Iterator[Server]:
    """A server as a user of the wheel starts it: no settings but the given ones."""
    port = free_port()
    command = [python, "-m", "sglang.launch_server", "--port", port, *options]
    log = work_dir / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=work_dir,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}", log, process)
    try:
        server.wait_until_healthy()
        yield server
    finally:
        kill_group(process)


@pytest.mark.server
@pytest.mark.slow
def test_wheel_serves(python: Path, real_model_dir: Path, tmp_path: Path) -> None:
    """On any host, a CPU's included, the two options of the README are enough."""
    segments = [
        {"text": "<|im_start|>user\nRead this."},
        {"document": "\n\nThe lighthouse of Varn was built in 1873 by the engineer Ida Kolm."},
        {"text": "\n\nWho built the lighthouse?<|im_end|>\n<|im_start|>assistant\n"},
    ]
    question = {"segments": segments, "sampling_params": {"temperature": 0, "max_new_tokens": 24}}
    with launched(
        python, tmp_path, "--model-path", real_model_dir, "--chunk-cache", "lazy"
    ) as server:
        first, second = (server.generate(**question) for _ in range(2))
    assert "Ida Kolm" in first["text"]
    assert second["text"] == first["text"]
    assert first["meta_info"]["chunk_cache"]["hits"] == 0
    assert second["meta_info"]["chunk_cache"]["hits"] == 1

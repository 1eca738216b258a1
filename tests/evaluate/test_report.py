"""What is written: the table, JSON, the plot and the records."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from sglang_lazy.evaluate.modes import parse_mode
from sglang_lazy.evaluate.plot import write_plot
from sglang_lazy.evaluate.record import write_records
from sglang_lazy.evaluate.report import table, write_json
from sglang_lazy.evaluate.summary import Summary, summarize

from .scripted import examples
from .test_summary import measurement

MODES = [parse_mode(name) for name in ("full", "sink+link:8", "none")]


@pytest.fixture
def summary() -> Summary:
    """Of 10 questions: 8 right with full attention, 6 with link tokens, none tried with none."""
    questions = examples(10, ["fact", "count"])
    measured, failed = {}, {}
    for i, question in enumerate(questions):
        measured[question.key, "full"] = measurement(float(i < 8), kl=0.0)
        measured[question.key, "sink+link:8"] = measurement(float(i < 6))
        failed[question.key, "none"] = "refused"
    return summarize(questions, MODES, measured, failed)


def test_table(summary: Summary) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(summary))
    lines = console.export_text().splitlines()

    def cells(heading: str) -> list[str]:
        line = next(line for line in lines if line.strip("│ ").startswith(heading))
        return [cell.strip() for cell in line.strip("│").split("│")]

    assert cells("questions")[1:] == ["10", "10", "0"]
    assert cells("right, %")[1:] == ["80.0", "60.0", "–"]
    assert cells("less full")[1:] == ["–", "-20.0", "–"]
    assert cells("NLL")[1:] == ["2.000", "2.000", "–"]
    assert cells("reused")[1:] == ["20.0%", "20.0%", "–"]
    assert cells("fact (5)")[1:] == ["80.0", "60.0", "–"]
    assert any("10 failed" in line for line in lines)


def test_json(summary: Summary, tmp_path: Path) -> None:
    write_json(tmp_path / "new" / "out.json", summary, {"data": "q.jsonl"})
    data = json.loads((tmp_path / "new" / "out.json").read_text())
    assert data["data"] == "q.jsonl"
    assert data["modes"]["full"]["metrics"]["contains"]["value"] == 0.8
    assert data["kinds"]["fact"]["sink+link:8"]["metrics"]["contains"]["n"] == 5
    assert data["errors"] == {"refused": 10}


@pytest.mark.parametrize("suffix, magic", [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_plot(summary: Summary, tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = tmp_path / "new" / f"plot{suffix}"
    write_plot(path, summary)
    assert path.read_bytes().startswith(magic)


def test_records(summary: Summary, tmp_path: Path) -> None:
    names = write_records(summary, tmp_path, gpu="H", command="python ...", commit="abc", model="m")
    assert names == ["quality_sink_link8"]  # nothing was measured without a context
    (path,) = tmp_path.iterdir()
    assert path.name == "quality_sink_link8.json"
    record = json.loads(path.read_text())
    assert record["figure"] == "quality_sink_link8"
    assert (record["value"], record["baseline"], record["n"]) == (60, 80, 10)
    assert (record["unit"], record["mode"], record["model"]) == ("points", "sink+link:8", "m")
    assert (record["gpu"], record["commit"], record["command"]) == ("H", "abc", "python ...")
    assert record["interval"][0] < 60 < record["interval"][1]
    assert record["difference"] == pytest.approx(-20)
    assert record["kinds"]["fact"]["value"] == 60
    assert "torch" in record["versions"]


def test_records_need_full_attention(summary: Summary, tmp_path: Path) -> None:
    without = Summary({"none": summary.modes["none"]}, {}, {})
    with pytest.raises(ValueError, match="full"):
        write_records(without, tmp_path, gpu="", command="")


def test_kinds_are_shown_as_they_are_named(tmp_path: Path) -> None:
    """Neither rich's markup nor matplotlib's formulas: any word is a kind."""
    kinds = ["[/dim]", "[bold]", "$x_{$"]
    questions = examples(3, kinds)
    measured = {(each.key, "full"): measurement(1.0) for each in questions}
    summary = summarize(questions, MODES[:1], measured, {})
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(summary))
    text = console.export_text()
    assert all(f"{kind} (1)" in text for kind in kinds)
    write_plot(tmp_path / "plot.png", summary)

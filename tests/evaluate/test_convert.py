"""Converters, on tiny files in the formats of the public sets."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from sglang_lazy.evaluate.cli import main
from sglang_lazy.evaluate.convert import Options, convert
from sglang_lazy.evaluate.dataset import DatasetError, Document, Example, read_examples

HOTPOT = {
    "_id": "5a8b57f25542995d1e6f1371",
    "question": "Were Ida and Nils born in one town?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Ida", 0], ["Nils", 1]],
    "context": [
        ["Pell", ["Pell is a town.", " It is old."]],
        ["Ida", ["Ida was born in Pell."]],
        ["Empty", []],
        ["Nils", ["Nils is a teacher.", " He was born in Pell."]],
    ],
}
CTXS = {
    "question": "who built the lighthouse",
    "answers": ["Ida Kolm", "Kolm"],
    "ctxs": [
        {"id": "w1", "title": "Varn", "text": "Ida Kolm built it.", "score": "80", "has_answer": 1},
        {"id": "w2", "title": "Lisk", "text": "A town.", "score": "70", "has_answer": False},
        {"id": "w3", "title": None, "text": "Another.", "score": "60", "has_answer": False},
        {"id": "w4", "title": "Empty", "text": " ", "score": "50", "has_answer": False},
    ],
}
TRIVIA_ANSWER = {"value": "Kolm", "aliases": ["Ida Kolm", " ", "Kolm"], "type": "WikipediaEntity"}
HUB = {
    "question": "who built the lighthouse",
    "answer": TRIVIA_ANSWER,
    "entity_pages": {"title": ["Varn"], "wiki_context": ["By Kolm."]},
    "search_results": {"title": [], "search_context": []},
}


def converted(name: str, path: Path, limit: int | None = None, **options: Any) -> list[Example]:
    target = path.with_name("out.jsonl")
    count = convert(name, path, target, Options(**options), limit)
    examples = read_examples(target)
    assert len(examples) == count
    return examples


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_hotpotqa(tmp_path: Path) -> None:
    (example,) = converted("hotpotqa", write(tmp_path / "dev.json", [HOTPOT]))
    assert example == Example(
        question="Were Ida and Nils born in one town?",
        documents=(
            Document("Pell is a town. It is old.", "Pell"),
            Document("Ida was born in Pell.", "Ida"),
            Document("Nils is a teacher. He was born in Pell.", "Nils"),
        ),
        answers=("yes",),
        kind="comparison",
    )


def test_hotpotqa_keeps_supporting_paragraphs_first(tmp_path: Path) -> None:
    (example,) = converted("hotpotqa", write(tmp_path / "dev.json", [HOTPOT]), max_documents=2)
    assert [d.title for d in example.documents] == ["Ida", "Nils"]


def test_hotpotqa_of_the_hub(tmp_path: Path) -> None:
    context = {
        "title": [title for title, _ in HOTPOT["context"]],
        "sentences": [sentences for _, sentences in HOTPOT["context"]],
    }
    facts = {"title": ["Ida", "Nils"], "sent_id": [0, 1]}
    row = {**HOTPOT, "context": context, "supporting_facts": facts}
    path = tmp_path / "dev.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    original = converted("hotpotqa", write(tmp_path / "dev.json", [HOTPOT]), max_documents=2)
    assert converted("hotpotqa", path, max_documents=2) == original


def test_hotpotqa_test_set_has_no_answers(tmp_path: Path) -> None:
    record = {key: value for key, value in HOTPOT.items() if key != "answer"}
    with pytest.raises(DatasetError, match=r"5a8b57f2.*answer"):
        converted("hotpotqa", write(tmp_path / "test.json", [record]))
    assert not (tmp_path / "out.jsonl").exists()


def test_2wiki_joins_sentences_with_spaces(tmp_path: Path) -> None:
    record = {
        "_id": "8813f87c0bdd11eba7f7acde48001122",
        "type": "bridge_comparison",
        "question": "Which film is older?",
        "context": [["Film A", ["Film A is a film.", "It is of 1931."]], ["Film B", ["Of 1950."]]],
        "supporting_facts": [["Film A", 1], ["Film B", 0]],
        "evidences": [["Film A", "publication date", "1931"]],
        "answer": "Film A",
    }
    as_json = {**record, "context": json.dumps(record["context"])}
    for data in (record, as_json):
        (example,) = converted("2wiki", write(tmp_path / "dev.json", [data]))
        assert example.documents[0] == Document("Film A is a film. It is of 1931.", "Film A")
        assert (example.kind, example.answers) == ("bridge_comparison", ("Film A",))


@pytest.mark.parametrize("name", ["nq", "triviaqa"])
def test_retrieval_results_keep_their_rank(tmp_path: Path, name: str) -> None:
    (example,) = converted(name, write(tmp_path / "test.json", [CTXS]), max_documents=2)
    assert example.documents == (
        Document("Ida Kolm built it.", "Varn"),
        Document("A town.", "Lisk"),
    )
    assert example.answers == ("Ida Kolm", "Kolm")


def test_json_lines_compressed(tmp_path: Path) -> None:
    path = tmp_path / "nq-open-10_total_documents_gold_at_0.jsonl.gz"
    lines = [{**CTXS, "question": f"question {i}"} for i in range(3)]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    examples = converted("nq", path, limit=2)
    assert [e.question for e in examples] == ["question 0", "question 1"]
    assert examples[0].documents[2] == Document("Another.")


def test_nq_training_data(tmp_path: Path) -> None:
    """One gold passage among negatives, anywhere, in an order that the seed decides."""
    passages = [{"title": f"T{i}", "text": f"Text {i}."} for i in range(20)]
    record = {
        "dataset": "nq_dev_psgs_w100",
        "question": "who",
        "answers": ["Ida"],
        "positive_ctxs": passages[:2],
        "hard_negative_ctxs": passages[2:5],
        "negative_ctxs": passages[5:],
    }
    no_gold = {**record, "positive_ctxs": []}
    path = write(tmp_path / "biencoder-nq-dev.json", [no_gold, record])
    (example,) = converted("nq", path, max_documents=4)
    assert sorted(d.title for d in example.documents) == ["T0", "T2", "T3", "T4"]
    assert converted("nq", path, max_documents=4) == [example]
    orders = {converted("nq", path, max_documents=4, seed=s)[0].documents for s in range(8)}
    assert len(orders) > 1
    assert len(converted("nq", path)[0].documents) == 10


def test_triviaqa_of_the_hub(tmp_path: Path) -> None:
    record = {
        "question": "Who built it?",
        "question_id": "tc_1",
        "answer": TRIVIA_ANSWER,
        "entity_pages": {"title": ["Varn"], "filename": ["Varn.txt"], "wiki_context": ["By Kolm."]},
        "search_results": {
            "title": ["Blog", "Empty"],
            "url": ["http://a", "http://b"],
            "search_context": ["one two three four", "  "],
        },
    }
    path = tmp_path / "validation.jsonl"
    path.write_text(json.dumps(record) + "\n")
    (example,) = converted("triviaqa", path, max_words=3)
    assert example.documents == (Document("By Kolm.", "Varn"), Document("one two three", "Blog"))
    assert example.answers == ("Kolm", "Ida Kolm")
    record["answer"] = {"value": "<unk>", "aliases": []}
    path.write_text(json.dumps(record))
    with pytest.raises(DatasetError, match="no answer"):
        converted("triviaqa", path)


def test_triviaqa_as_released(tmp_path: Path) -> None:
    for name, text in (("wikipedia/Varn.txt", "By Kolm."), ("web/3/3_2.txt", "A blog.")):
        (tmp_path / "evidence" / name).parent.mkdir(parents=True)
        (tmp_path / "evidence" / name).write_text(text)
    record = {
        "Question": "Who built it?",
        "QuestionId": "tc_1",
        "Answer": {"Value": "Kolm", "Aliases": ["Ida Kolm"], "NormalizedAliases": ["ida kolm"]},
        "EntityPages": [{"DocSource": "TagMe", "Filename": "Varn.txt", "Title": "Varn"}],
        "SearchResults": [{"Filename": "3/3_2.txt", "Rank": 2, "Title": "Blog", "Url": "http://a"}],
    }
    path = write(tmp_path / "web-dev.json", {"Data": [record], "Domain": "Web", "Version": 1.0})
    (example,) = converted("triviaqa", path, evidence=tmp_path / "evidence")
    assert example.documents == (Document("By Kolm.", "Varn"), Document("A blog.", "Blog"))
    with pytest.raises(DatasetError, match="--evidence"):
        converted("triviaqa", path)


@pytest.mark.parametrize("name", ["hotpotqa", "2wiki", "nq", "triviaqa"])
@pytest.mark.parametrize("data", [[{"question": "who"}], [7], "text"])
def test_other_formats_are_refused(tmp_path: Path, name: str, data: Any) -> None:
    with pytest.raises(DatasetError):
        converted(name, write(tmp_path / "x.json", data))


def test_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("no json")
    with pytest.raises(DatasetError, match="neither JSON nor"):
        converted("nq", tmp_path / "x.jsonl")


def test_json_lines_by_the_name_of_json(tmp_path: Path) -> None:
    """Wikipedia's texts hold line separators, which end no line of JSON lines."""
    lines = [{**CTXS, "question": f"who\u2028{i}\x85"} for i in range(2)]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "test.json").write_text("\ufeff" + text, encoding="utf-8")
    examples = converted("nq", tmp_path / "test.json")
    assert [e.question for e in examples] == [line["question"] for line in lines]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(CTXS).encode())
    for name, data in (("cut.jsonl.gz", packed[:-12]), ("latin.jsonl", b'{"question": "\xe9"}')):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DatasetError, match=name):
            converted("nq", tmp_path / name)


@pytest.mark.parametrize(
    "name, record",
    [
        ("nq", {**CTXS, "answers": "Kolm"}),  # not the answers K, o, l and m
        ("nq", {**CTXS, "answers": [1927]}),
        ("nq", {**CTXS, "ctxs": [{"title": "Varn", "text": None}]}),
        ("nq", {**CTXS, "ctxs": [{"title": 5, "text": "A town."}]}),
        ("triviaqa", {**HUB, "answer": {"value": "Kolm", "aliases": "Ida"}}),
        ("triviaqa", {**HUB, "answer": {"value": "Kolm", "aliases": [None]}}),
        ("triviaqa", {**HUB, "entity_pages": {"title": ["Varn"], "wiki_context": [None]}}),
    ],
)
def test_values_of_other_types_are_refused(
    tmp_path: Path, name: str, record: Mapping[str, Any]
) -> None:
    with pytest.raises(DatasetError, match="question 2 "):
        converted(name, write(tmp_path / "x.json", [CTXS, record]))


@pytest.mark.parametrize("records", [[], [CTXS, {"question": "who"}]], ids=["none", "broken"])
def test_a_failed_conversion_leaves_the_target_alone(tmp_path: Path, records: list[Any]) -> None:
    source, target = write(tmp_path / "x.json", records), tmp_path / "out.jsonl"
    target.write_text("before")
    assert main(["convert", "nq", str(source), str(target)]) == 2
    assert target.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "out.jsonl"}

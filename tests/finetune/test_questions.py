"""The question generator: what train and test share, and whether answers follow from documents."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product

import pytest
from attributes import Attribute
from categories import CATEGORIES
from generate import evaluation_set, examples
from questions import (
    KINDS,
    REFUSAL,
    Question,
    contains_answer,
    final_answer,
    is_right,
)
from vocabulary import FIRST_NAMES, NUMBER_WORDS, POOLS, SPLITS, roots, share_of_root
from wordings import FRAMES, Wording
from world import World, fill

PER_KIND = 40
ATTRIBUTES = [
    pytest.param(a, id=f"{c.noun}-{a.name}") for c in CATEGORIES.values() for a in c.attributes
]


def expansions(templates: Iterable[str], words: dict[str, str]) -> set[str]:
    """Every sentence that templates can become, but for the names in it."""
    sentences = set()
    for template in templates:
        text = re.sub(r"\{(\w+)\}", lambda m: words.get(m[1], m[0]), template)
        parts = re.split(r"\[([^\[\]]*)\]", text)
        choices = [p.split("|") if i % 2 else [p] for i, p in enumerate(parts)]
        sentences |= {"".join(chosen).lower() for chosen in product(*choices)}
    return sentences


@pytest.fixture(scope="module")
def worlds() -> dict[str, list[tuple[World, list[Question]]]]:
    return {
        split: [pair for pair, _ in zip(examples(3, split, 14), range(60), strict=False)]
        for split in SPLITS
    }


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_sentences_of_the_splits_differ(attribute: Attribute) -> None:
    uses: tuple[Callable[[Wording], Iterable[str]], ...] = (
        lambda w: w.statements, Wording.all_questions, lambda w: w.noun_phrases,
    )  # fmt: skip
    for sentences in uses:
        train, *tests = (
            expansions(sentences(attribute.wording[s]), attribute.words) for s in SPLITS
        )
        for test in tests:
            assert not train & test
    assert all(attribute.wording[s].statements and attribute.wording[s].questions for s in SPLITS)


def test_training_sentences_have_no_gaps() -> None:
    """Whatever alternatives are drawn: no space is doubled, at an end or before a full stop."""
    wordings = [(a.wording["train"], a.words) for p in ATTRIBUTES for a in p.values]
    lists = [(x, words) for wording, words in wordings for x in wording]
    lists += [(frames["train"], {}) for frames in FRAMES.values()]
    for sentences, words in lists:
        for text in expansions(sentences, {"title": "", **words}):
            assert text == text.strip() and not re.search(r"\s\s|\s[.,;:!?)]|\(\s|\) \.", text)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_training_statements_state_nothing_else(attribute: Attribute) -> None:
    """A value that another attribute of the same thing might have."""
    siblings = [a for c in CATEGORIES.values() if attribute in c.attributes for a in c.attributes]
    values = {v.lower() for a in siblings for v in POOLS.get(a.values, ())}
    sentences = expansions(attribute.wording["train"].statements, {"title": "", **attribute.words})
    for text in sentences:
        assert not [v for v in values if re.search(rf"\b{re.escape(v)}\b", text)], text


@pytest.mark.parametrize(
    ("template", "words", "expected"),
    [
        ("It has a {V} tail.", {}, "It has an orange tail."),
        ("How often is a {noun} seen?", {"noun": "owl"}, "How often is an owl seen?"),
        ("How often is a {noun} seen?", {"noun": "ship"}, "How often is a ship seen?"),
    ],
)
def test_articles_fit(template: str, words: dict[str, str], expected: str) -> None:
    assert fill(random.Random(0), template, "Comet Hallend", "orange", **words) == expected


@pytest.mark.parametrize("frames", [pytest.param(f, id=n) for n, f in FRAMES.items()])
def test_what_is_said_and_asked_of_anything_differs(frames: dict[str, list[str]]) -> None:
    train = expansions(frames["train"], {})
    for split in ("test", "fresh"):
        assert not train & expansions(frames.get(split, []), {})


def test_names_of_the_splits_differ() -> None:
    train, test = set(roots("train")), set(roots("test"))
    assert not train & test
    assert len(train) > 3000 and len(test) > 1000
    assert not set(FIRST_NAMES["train"]) & set(FIRST_NAMES["test"])
    assert share_of_root("Varn") == "test", "the demo's documents are no training data"


def test_entities_of_the_splits_differ(worlds) -> None:
    """Names of things, people, towns and companies; values that are common nouns may recur."""

    def names(split: str) -> set[str]:
        found = set()
        for world, _ in worlds[split]:
            for thing in world.things:
                found.add(thing.name)
                for name, value in thing.stated.items():
                    if thing.attribute(name).values in ("person", "town", "company", "root"):
                        found.add(value.text)
        return found

    assert not names("train") & names("test")


@pytest.mark.parametrize("split", SPLITS)
def test_answers_follow_from_the_documents(worlds, split: str) -> None:
    """Read from the text alone: the values stand in the documents of the things asked about."""
    kinds = Counter()
    for world, questions in worlds[split]:
        text = {t.name: t.document for t in world.things}
        for q in questions:
            kinds[q.kind] += 1
            documents = [text[name].lower() for name in q.things if name in text]
            values = [v.lower() for _, _, v in q.facts]
            if q.kind == "unanswerable":
                assert q.answers[0] == REFUSAL
                assert all(q.things[0].lower() not in d.lower() for d in text.values()) or documents
                continue
            assert len(documents) == len(q.things)
            if q.kind in ("fact", "date", "distractor"):
                assert values[0] in documents[0] and is_right(values[0], q.answers)
            elif q.kind == "comparison":
                assert all(v in d for v, d in zip(values, documents, strict=True))
                numbers = [read_number(v) for v in values]
                wants_less = re.search(
                    "lower|shorter|lighter|fewer|earlier|narrower|shallower", q.text
                )
                best = min(numbers) if wants_less else max(numbers)
                assert is_right(q.things[numbers.index(best)], q.answers)
            elif q.kind == "two_hop":
                assert values[0] in documents[0] and values[1] in documents[1]
                assert q.things[1].lower() == values[0] and is_right(values[1], q.answers)
                assert values[0] not in q.text.lower(), "the question must not name the link"
            elif q.kind == "count":
                assert is_right(NUMBER_WORDS[len(q.things)], q.answers)
                assert len(set(q.things)) == len(q.things)
                assert all(v in d for v, d in zip(values, documents, strict=False))
    assert set(kinds) == set(KINDS)


def read_number(value: str) -> int:
    first = value.split()[0]
    return int(first) if first.isdigit() else NUMBER_WORDS.index(first)


def test_counts_are_complete(worlds) -> None:
    """No document of the kind is left out of the count."""
    for world, questions in worlds["test"]:
        for q in (q for q in questions if q.kind == "count" and not q.facts):
            noun = world.named(q.things[0]).category.noun
            about = [t for t in world.things if t.category.noun == noun]
            assert len(about) == len(q.things)


def test_targets_end_in_the_answer(worlds) -> None:
    for _, questions in (*worlds["train"], *worlds["test"]):
        for q in questions:
            assert is_right(q.target, q.answers), q


def test_same_seed_gives_the_same_questions() -> None:
    assert evaluation_set(5, "test", 2) == evaluation_set(5, "test", 2)
    assert evaluation_set(5, "test", 2) != evaluation_set(6, "test", 2)


def test_evaluation_set_has_what_the_harness_reads() -> None:
    rows = evaluation_set(5, "test", 2)
    assert Counter(r["kind"] for r in rows) == dict.fromkeys(KINDS, 2)
    for row in rows:
        assert row["question"] and row["answers"]
        assert len(row["documents"]) >= 4 and all(row["documents"])


@pytest.mark.parametrize(
    ("text", "answers", "right"),
    [
        ("Ida Kolm", ["Ida Kolm"], True),
        ("ida kolm.", ["Ida Kolm"], True),
        ("Ida Kolm: 1842", ["1842"], True),
        ("41 metres and 63 metres: the Ostrel bridge", ["the Ostrel bridge"], True),
        ("Ostrel bridge\nand more", ["the Ostrel bridge"], True),
        ("four eggs", ["4 eggs", "four eggs", "four"], True),
        ("Ida Kolm", ["Ida"], False),
        ("1842: Ida Kolm", ["1842"], False),
        ("The notes do not say.", ["The notes do not say.", "do not say"], True),
        ("", ["one"], False),
    ],
)
def test_judging(text: str, answers: list[str], right: bool) -> None:
    assert is_right(text, answers) is right


def test_containment_is_by_words() -> None:
    assert contains_answer("It was built by Ida Kolm, they say.", ["Ida Kolm"])
    assert not contains_answer("Someone built it", ["one"])
    assert final_answer("A, B: two") == "two"


def test_random_state_of_the_caller_is_left_alone() -> None:
    random.seed(1)
    before = random.getstate()
    evaluation_set(5, "test", 1)
    assert random.getstate() == before

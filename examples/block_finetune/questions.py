"""Questions about a world, their answers, and what a model is taught to say.

What is taught (``target``) shows its work where the question takes more than one step, and ends in
the answer: "the Ostrel bridge 41 metres, the bridge of Pell 63 metres, the larger is 63: the bridge
of Pell". The answer is what stands behind the last colon (``final_answer``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from attributes import Attribute
from vocabulary import NUMBER_WORDS
from wordings import FRAMES
from world import Thing, World, fill

REFUSAL = "The notes do not say."
KINDS = ("fact", "date", "distractor", "comparison", "two_hop", "count", "unanswerable")
# How often to train on each: more often what is hard, or asked in the most ways.
TRAINED = (*KINDS, "fact", "comparison", "two_hop", "count", "fact", "unanswerable")


@dataclass
class Question:
    """One question.

    Attributes:
        kind: one of ``KINDS``.
        text: as it is asked.
        answers: ways to write the answer; the first is the one taught.
        target: what the model is taught to say.
        opening: first words of an answer, put into the prompt, or "".
        template: which template asked it.
        things: names of the things that it takes to answer.
    """

    kind: str
    text: str
    answers: list[str]
    target: str
    template: str
    things: list[str]
    opening: str = ""
    facts: list[tuple[str, str, str]] = field(default_factory=list)


def final_answer(text: str) -> str:
    """What a generated text gives as its answer: the part behind the last colon, tidied."""
    text = text.strip().split("\n")[0].rsplit(": ", 1)[-1]
    return " ".join(text.lower().rstrip(".!?").replace(",", "").split()).removeprefix("the ")


def is_right(text: str, answers: list[str]) -> bool:
    """Whether a generated text gives one of the answers."""
    return final_answer(text) in {final_answer(a) for a in answers}


def contains_answer(text: str, answers: list[str]) -> bool:
    """Whether one of the answers stands anywhere in a text: for models that answer at length."""
    padded = " " + " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split()) + " "
    plain = (" ".join(re.sub(r"[^\w\s]", " ", a.lower()).split()) for a in answers)
    return any(f" {a.removeprefix('the ')} " in padded for a in plain)


def _lead(answer: str) -> str:
    return answer[0].upper() + answer[1:]


def _wrap(rng: random.Random, world: World, text: str, starts_with_name: bool = False) -> str:
    if rng.random() > 0.15:
        return text
    wrapper = rng.choice(FRAMES["wrappers"][world.split])
    keeps = starts_with_name or text.startswith("I ")
    lower = text if keeps else text[0].lower() + text[1:]
    return wrapper.format(q=lower)


def _ask(rng: random.Random, world: World, attribute: Attribute, subject: str) -> tuple[str, str]:
    template = attribute.wording[world.split].draw_question(rng)
    text = fill(rng, template, subject, **attribute.words)
    return _wrap(rng, world, text, template.startswith("{S}")), template


def _same(world: World, attribute: str, noun: str) -> list[Thing]:
    return [t for t in world.things if t.category.noun == noun and attribute in t.stated]


def _single(
    rng: random.Random, world: World, pick: Callable[[Thing, str], bool], kind: str
) -> Question | None:
    options = [(t, a) for t in world.things for a in t.stated if pick(t, a)]
    if not options:
        return None
    thing, name = rng.choice(options)
    attribute, value = thing.attribute(name), thing.stated[name]
    text, template = _ask(rng, world, attribute, thing.name)
    question = Question(
        kind, text, [value.text, *value.aliases], value.text, template, [thing.name],
        facts=[(thing.name, name, value.text)],
    )  # fmt: skip
    openings = [
        s for s in attribute.wording[world.split].statements if s.endswith("{V}.") and "{S}" in s
    ]
    if openings and rng.random() < 0.12:
        filled = fill(
            rng, rng.choice(openings), thing.name, "\0", **{**attribute.words, "title": ""}
        )
        question.opening = filled.split("\0")[0].rstrip()
    return question


def fact(rng: random.Random, world: World) -> Question | None:
    """A value that one document states."""
    return _single(rng, world, lambda t, a: t.attribute(a).values not in ("date", "year"), "fact")


def date(rng: random.Random, world: World) -> Question | None:
    """A year or a full date."""
    return _single(rng, world, lambda t, a: t.attribute(a).values in ("date", "year"), "date")


def distractor(rng: random.Random, world: World) -> Question | None:
    """A value that several documents state, each of its own thing."""
    return _single(rng, world, lambda t, a: len(_same(world, a, t.category.noun)) > 1, "distractor")


def comparison(rng: random.Random, world: World) -> Question | None:
    """Which of two things has more of something."""
    options = []
    for thing in world.things:
        for name in thing.stated:
            attribute = thing.attribute(name)
            for other in _same(world, name, thing.category.noun):
                if attribute.more and other.stated[name].number != thing.stated[name].number:
                    options.append((thing, other, attribute))
    if not options:
        return None
    one, other, attribute = rng.choice(options)
    values = one.stated[attribute.name], other.stated[attribute.name]
    wants_more = rng.random() < 0.5
    comparative = attribute.more if wants_more else attribute.less
    winner = one if (values[0].number > values[1].number) == wants_more else other  # type: ignore[operator]
    more, less = ("later", "earlier") if "event" in attribute.words else ("larger", "smaller")
    extreme = more if wants_more else less
    number = winner.stated[attribute.name].text.split()[0]
    template = rng.choice(FRAMES["comparisons"][world.split])
    if "things" in attribute.words:
        template = template.replace("is {cmp}", "has {cmp}")
        template = template.replace("Is {A} or {B} {cmp}?", "Does {A} or {B} have {cmp}?")
        comparative = f"{comparative} {attribute.words['things']}"
    elif "event" in attribute.words:
        template = template.replace("is {cmp}", "was {cmp}").replace("Is {A}", "Was {A}")
    words = {"cmp": comparative, "A": one.name, "B": other.name}
    text = fill(rng, template, "", **words)
    return Question(
        "comparison", _wrap(rng, world, text, template.startswith("{A}")), [winner.name],
        f"{_lead(one.name)} {values[0].text}, {other.name} {values[1].text}, "
        f"the {extreme} is {number}: {winner.name}", template,
        [one.name, other.name],
        facts=[(t.name, attribute.name, v.text) for t, v in zip((one, other), values, strict=True)],
    )  # fmt: skip


def two_hop(rng: random.Random, world: World) -> Question | None:
    """A question about something that only another document names."""
    options = []
    for thing in world.things:
        for name, value in thing.stated.items():
            link = world.named(value.text)
            if link and thing.attribute(name).wording[world.split].noun_phrases:
                options += [(thing, name, link, hop) for hop in link.stated]
    if not options:
        return None
    thing, name, link, hop = rng.choice(options)
    first = thing.attribute(name)
    phrase = fill(
        rng, rng.choice(first.wording[world.split].noun_phrases), thing.name, **first.words
    )
    text, template = _ask(rng, world, link.attribute(hop), phrase[0].lower() + phrase[1:])
    value = link.stated[hop]
    return Question(
        "two_hop", text, [value.text, *value.aliases], f"{_lead(link.name)}: {value.text}",
        template, [thing.name, link.name],
        facts=[(thing.name, name, link.name), (link.name, hop, value.text)],
    )  # fmt: skip


def count(rng: random.Random, world: World) -> Question | None:
    """How many things there are of a kind, or of a kind in a town."""
    nouns = [t.category for t in world.things if t.category.patterns]
    category = rng.choice(nouns)
    matching = [t for t in world.things if t.category is category]
    placed = [t for t in matching if "place" in t.stated]
    words = {"noun": category.noun, "plural": category.plural}
    facts: list[tuple[str, str, str]] = []
    if placed and rng.random() < 0.6:
        words["town"] = rng.choice(placed).stated["place"].text
        matching = [t for t in placed if t.stated["place"].text == words["town"]]
        template = rng.choice(FRAMES["counts_by_place"][world.split])
        facts = [(t.name, "place", words["town"]) for t in matching]
    else:
        template = rng.choice(FRAMES["counts_by_kind"][world.split])
    number = len(matching)
    listed = ", ".join(t.name for t in matching)
    text = _wrap(rng, world, fill(rng, template, "", **words), template.startswith("{town}"))
    return Question(
        "count", text, [NUMBER_WORDS[number], str(number)],
        f"{_lead(listed)}: {NUMBER_WORDS[number]}", template, [t.name for t in matching],
        facts=facts,
    )  # fmt: skip


def unanswerable(rng: random.Random, world: World) -> Question | None:
    """About a thing that no document is about, or something that its document does not tell."""
    if rng.random() < 0.5:
        thing = rng.choice(world.absent)
        attribute = thing.attribute(rng.choice(sorted(thing.stated)))
    else:
        options = [
            (t, a) for t in world.things for a in t.category.attributes if a.name not in t.stated
        ]
        if not options:
            return None
        thing, attribute = rng.choice(options)
    text, template = _ask(rng, world, attribute, thing.name)
    return Question("unanswerable", text, [REFUSAL, "do not say"], REFUSAL, template, [thing.name])


MAKERS: dict[str, Callable[[random.Random, World], Question | None]] = {
    "fact": fact,
    "date": date,
    "distractor": distractor,
    "comparison": comparison,
    "two_hop": two_hop,
    "count": count,
    "unanswerable": unanswerable,
}

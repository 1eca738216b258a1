"""Small invented worlds: a handful of things, what is known of them, and documents that say it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from attributes import Attribute, Category
from categories import CATEGORIES, THINGS
from vocabulary import MONTHS, NUMBER_WORDS, POOLS, Names, Split
from wordings import FRAMES


@dataclass(frozen=True)
class Value:
    """What is known: as documents write it, as a number to compare, and other ways to write it."""

    text: str
    number: int | None = None
    aliases: tuple[str, ...] = ()


@dataclass
class Thing:
    """One entity. ``stated`` holds the attributes that its document tells; others are unknown."""

    name: str
    category: Category
    stated: dict[str, Value] = field(default_factory=dict)
    document: str = ""

    def attribute(self, name: str) -> Attribute:
        return next(a for a in self.category.attributes if a.name == name)


@dataclass
class World:
    """The things of one prompt in the order of their documents, and a thing it lacks."""

    split: Split
    things: list[Thing]
    absent: list[Thing]

    def named(self, name: str) -> Thing | None:
        return next((t for t in self.things if t.name == name), None)


def fill(rng: random.Random, template: str, thing: str, value: str = "", **words: str) -> str:
    """One sentence from a template: alternatives drawn, placeholders filled, capitalised.

    "a" in front of a placeholder is "an" where the word that fills it begins with a vowel.
    """
    words = {"title": "", "V": value, **words}
    template = re.sub(
        r"\b([Aa]) (?=\{(\w+)\})",
        lambda m: f"{m[1]}n " if words.get(m[2], "").startswith(tuple("aeiou")) else m[0],
        template,
    )
    text = re.sub(r"\{(\w+)\}", lambda m: words.get(m[1], m[0]), template)
    text = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m[1].split("|")), text)
    text = text.replace("{N}", thing.removeprefix("the "))
    text = text.replace("{S}", thing)
    return text[0].upper() + text[1:]


def draw_value(rng: random.Random, names: Names, spec: str, towns: list[str]) -> Value:
    """A value for ``Attribute.values``."""
    kind, *details = spec.split()
    if kind == "number":
        number, unit = rng.randint(int(details[0]), int(details[1])), " ".join(details[2:])
        written = str(number)
        word = NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else None
        if word and rng.random() < 0.6:
            written = word
        both = (written, word, str(number))
        aliases = [f"{w} {unit}".strip() for w in both if w] + ([w for w in both if w])
        return Value(f"{written} {unit}".strip(), number, tuple(dict.fromkeys(aliases)))
    if kind == "year":
        number = rng.randint(1620, 2015)
        return Value(str(number), number)
    if kind == "date":
        day, month, number = rng.randint(1, 28), rng.choice(MONTHS), rng.randint(1750, 2015)
        text = f"{day} {month} {number}"
        return Value(text, aliases=(f"{month} {day}, {number}",))
    if kind == "person":
        return Value(names.person())
    if kind == "town":
        return Value(rng.choice(towns) if rng.random() < 0.75 else names.town())
    if kind == "company":
        return Value(names.company())
    if kind == "root":
        return Value(names.root())
    return Value(rng.choice(POOLS[kind]))


def make_world(rng: random.Random, split: Split, size: int | None = None) -> World:
    """Draw a world of ``size`` things (4 to 8 where None), several of which are alike or linked."""
    size = size or rng.randint(4, 8)
    names = Names(rng, split)
    towns = [names.town() for _ in range(rng.randint(2, 3))]
    focus = rng.choice(THINGS)
    num_alike = min(rng.randint(2, 4), size - 1)
    num_linked = rng.randint(1, max(1, size - num_alike - 1))
    things: list[Thing] = []
    for i in range(size - num_linked):
        noun = focus if i < num_alike else rng.choice(THINGS)
        things.append(_draw_thing(rng, names, CATEGORIES[noun], towns))
    _align(rng, names, things[:num_alike], towns)
    things += _linked(rng, names, things, towns, num_linked)
    rng.shuffle(things)
    for thing in things:
        thing.document = write_document(rng, names, thing, split, towns)
    absent = [_draw_thing(rng, names, CATEGORIES[rng.choice(THINGS)], towns) for _ in range(2)]
    absent.append(_draw_thing(rng, names, CATEGORIES[focus], towns))
    return World(split, things, absent)


def _draw_thing(
    rng: random.Random, names: Names, category: Category, towns: list[str], name: str = ""
) -> Thing:
    if not name:
        name = rng.choice(category.patterns).format(root=names.root())
    thing = Thing(name, category)
    known = rng.sample(category.attributes, rng.randint(3, min(5, len(category.attributes))))
    for attribute in known:
        thing.stated[attribute.name] = draw_value(rng, names, attribute.values, towns)
    return thing


def _align(rng: random.Random, names: Names, alike: list[Thing], towns: list[str]) -> None:
    """See to it that things of one category can be compared and counted."""
    attributes = alike[0].category.attributes
    comparable = [a for a in attributes if a.more]
    wanted = rng.sample(comparable, min(len(comparable), rng.randint(1, 2)))
    wanted += [a for a in attributes if a.name == "place" and rng.random() < 0.6]
    for thing in alike:
        for attribute in wanted:
            if attribute.name not in thing.stated:
                thing.stated[attribute.name] = draw_value(rng, names, attribute.values, towns)


def _linked(
    rng: random.Random, names: Names, things: list[Thing], towns: list[str], count: int
) -> list[Thing]:
    """Things that tell more about the people, towns and companies that others name."""
    links: dict[str, str] = {}
    for thing in things:
        for name, value in thing.stated.items():
            if category := thing.attribute(name).links_to:
                links[value.text] = category
    chosen = rng.sample(sorted(links), min(count, len(links)))
    linked = [_draw_thing(rng, names, CATEGORIES[links[n]], towns, n) for n in chosen]
    while len(linked) < count:
        linked.append(_draw_thing(rng, names, CATEGORIES["person"], towns, names.person()))
    return linked


def write_document(
    rng: random.Random, names: Names, thing: Thing, split: Split, towns: list[str]
) -> str:
    """A document that states every attribute in ``thing.stated``, in one of several styles."""
    facts = list(thing.stated.items())
    rng.shuffle(facts)
    if split == "train" and rng.random() < 0.08:
        lines = [f"{name.capitalize()}: {value.text}" for name, value in facts]
        return thing.name[0].upper() + thing.name[1:] + "\n" + "\n".join(lines)
    sentences: list[str] = []
    if combined := _state_two_at_once(rng, thing, split):
        sentences.append(combined)
        facts = [(n, v) for n, v in facts if n not in ("maker", "year")]
    for name, value in facts:
        sentence = _state(rng, thing, thing.attribute(name), value, split, not sentences)
        if split == "train" and ":" not in sentence and rng.random() < 0.15:
            sentence = f"{rng.choice(FRAMES['leads'][split])} {_lower(sentence, thing)}"
        _append(rng, sentences, sentence, thing, split)
        if rng.random() < 0.4:
            filler = rng.choice(FRAMES["fillers"][split])
            person, town = "", ""
            if "{person}" in filler:
                person = names.person()
            if "{town}" in filler:
                town = rng.choice(towns)
            words = {"year": str(rng.randint(1800, 2015)), "n": rng.choice(NUMBER_WORDS[2:])}
            sentences.append(fill(rng, filler, thing.name, person=person, town=town, **words))
    title = thing.name[0].upper() + thing.name[1:]
    style = rng.random()
    if style < 0.12:
        return f"{title}\n" + " ".join(sentences)
    if style < 0.18:
        return f"{title}. " + " ".join(sentences)
    return " ".join(sentences)


def _state_two_at_once(rng: random.Random, thing: Thing, split: Split) -> str:
    """ "... was built by Ida Kolm in 1873", where both are known and belong to one event."""
    maker, year = thing.stated.get("maker"), thing.stated.get("year")
    if not maker or not year or rng.random() < 0.6:
        return ""
    words = thing.attribute("maker").words
    if thing.attribute("year").words["pp"] != words["pp"]:
        return ""
    template = rng.choice(FRAMES["maker_and_year"][split])
    return fill(rng, template, thing.name, maker.text, Y=year.text, **words)


def _lower(sentence: str, thing: Thing) -> str:
    """The sentence as part of a longer one; a name that begins it keeps its capital."""
    first = sentence.split()[0].strip(",.")
    names = " ".join([thing.name, *(v.text for v in thing.stated.values())]).split()
    keeps = first in names and first != "The"
    return sentence if keeps else sentence[0].lower() + sentence[1:]


def _append(
    rng: random.Random, sentences: list[str], sentence: str, thing: Thing, split: Split
) -> None:
    """Add a sentence, sometimes joined to the last one where both begin alike.

    By "and"; in training also with the last one as a relative clause: "The bridge, which is 90
    metres long, was opened in 1902."
    """
    name = thing.name[0].upper() + thing.name[1:]
    heads = [f"{n} " for n in (name, *thing.category.short)]
    last = sentences[-1] if sentences else ""
    joinable = all(
        any(x.startswith(h) for h in heads)
        and not x.startswith(("It was ", "It takes "))
        and "," not in x
        and " and " not in x
        for x in (last, sentence)
    )
    way = rng.random() if joinable else 1.0
    if way < 0.4:
        head = next(h for h in heads if sentence.startswith(h))
        sentences[-1] = f"{last.removesuffix('.')} and {sentence.removeprefix(head)}"
    elif way < 0.7 and split == "train" and not last.startswith("It "):
        subject = next(h for h in heads if last.startswith(h))
        head = next(h for h in heads if sentence.startswith(h))
        pronoun = "who" if thing.category.noun == "person" else "which"
        clause = last.removeprefix(subject).removesuffix(".")
        sentences[-1] = f"{subject.rstrip()}, {pronoun} {clause}, {sentence.removeprefix(head)}"
    else:
        sentences.append(sentence)


def _state(
    rng: random.Random, thing: Thing, attribute: Attribute, value: Value, split: Split, first: bool
) -> str:
    templates = attribute.wording[split].statements
    if first:
        templates = [t for t in templates if "{S}" in t or "{N}" in t]
    template = rng.choice(templates)
    name = thing.name
    if not first and template.startswith("{S} ") and "{N}" not in template:
        if thing.category.short and rng.random() < 0.5:
            name = rng.choice(thing.category.short)
        elif thing.category.noun == "person" and rng.random() < 0.3:
            name = thing.name.split()[-1]
    return fill(rng, template, name, value.text, **attribute.words)

"""What can be said of things: attributes with common wordings, and with wordings of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from vocabulary import Split
from wordings import WORDINGS, Wording


@dataclass(frozen=True)
class Attribute:
    """Something that a document may state.

    Attributes:
        name: unique within the category.
        wording: its sentences in each split.
        words: fills the wording's placeholders.
        values: how a value is drawn (``world.draw_value``), with its range.
        more, less: comparatives, where values can be compared.
        links_to: category of documents that tell more about the value.
    """

    name: str
    wording: dict[Split, Wording]
    words: dict[str, str]
    values: str
    more: str = ""
    less: str = ""
    links_to: str = ""


@dataclass(frozen=True)
class Category:
    """Noun and plural; name patterns; attributes; short forms that stand for the name."""

    noun: str
    plural: str
    patterns: tuple[str, ...]
    attributes: tuple[Attribute, ...] = field(repr=False)
    short: tuple[str, ...] = ("It",)


def maker(pp: str, past: str, ger: str, agent: str, titles: str = "") -> Attribute:
    words = {"pp": pp, "past": past, "ger": ger, "agent": agent, "title": titles}
    return Attribute("maker", WORDINGS["maker"], words, "person", links_to="person")


def year(pp: str, event: str) -> Attribute:
    words = {"pp": pp, "event": event}
    return Attribute("year", WORDINGS["year"], words, "year", f"{pp} later", f"{pp} earlier")


def date(pp: str, event: str) -> Attribute:
    return Attribute("date", WORDINGS["date"], {"pp": pp, "event": event}, "date")


def measure(adj: str, noun: str, unit: str, low: int, high: int, more: str, less: str) -> Attribute:
    words = {"adj": adj, "noun": noun, "unit": unit}
    return Attribute(noun, WORDINGS["measure"], words, f"number {low} {high} {unit}", more, less)


def amount(things: str, low: int, high: int) -> Attribute:
    words = {"things": things}
    return Attribute(things, WORDINGS["amount"], words, f"number {low} {high}", "more", "fewer")


def place(stands: str = "stands") -> Attribute:
    words = {"stands": stands}
    return Attribute("place", WORDINGS["place"], words, "town", links_to="town")


def head(role: str) -> Attribute:
    return Attribute("head", WORDINGS["head"], {"role": role}, "person", links_to="person")


def owner() -> Attribute:
    return Attribute("owner", WORDINGS["owner"], {}, "company", links_to="company")


def named(part: str) -> Attribute:
    return Attribute(part, WORDINGS["named"], {"part": part}, "root")


def own(name: str, values: str, **words: str) -> Attribute:
    """An attribute with a wording of its own."""
    return Attribute(name, WORDINGS[name], words, values)


def material(made: str = "made") -> Attribute:
    return own("material", "material", made=made)

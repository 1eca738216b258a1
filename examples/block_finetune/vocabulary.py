"""Invented names and values, with a train and a test share that have none in common.

Every name is built on a *root* such as "Varn" or "Ostrel", and a root belongs to one share for
good: it is hashed, and the roots of the demo's documents belong to the test share by name.
People's names have a first name from the share's own list and a root as family name. The splits
``test`` and ``fresh`` differ in sentences only and draw on the same names.
"""

from __future__ import annotations

import random
import re
import zlib
from functools import cache
from typing import Literal

Split = Literal["train", "test", "fresh"]
SPLITS: tuple[Split, ...] = ("train", "test", "fresh")
Share = Literal["train", "test"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _items(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_ONSETS = _words(
    "B Br C Cl D Dr F Fl G Gr H J K Kr L M N P Pr Qu R S Sk St T Tr V W Z Th Sh Bl Gl Pl Sv Ch"
)
_VOWELS = _words("a e i o u ar el en or au ei ie ou al ur")
_MIDDLES = _words("b d g k l ll m n nd nt r rr s st t v z mb lk rn")
_ENDS = _words("a o e en el in or ar ick ow und ost eth is um ay er ist ok ain")
DEMO_ROOTS = frozenset(
    _words(
        "Varn Ostrel Pell Greyford Marrow Bertha Dorrin Sil Aumont Hallend Lisk Tamber "
        "Kolm Reel Voss Arvo Oduya Strand Sandoval Copper Lantern"
    )
)

FIRST_NAMES: dict[Share, tuple[str, ...]] = {
    "train": _words(
        "Anna Boris Clara Daniel Elsa Felix Greta Henrik Irene Jakob Karin Leo Marta "
        "Niklas Olga Peter Rosa Simon Thea Ulrich Vera Walter Yvonne Zoltan Agnes Bruno "
        "Cecil Dora Emil Flora Gustav Helen Igor Julia Klaus Lydia Marcus Nora Oscar "
        "Paula Quentin Rita Stefan Tilda Ugo Viola Werner Xenia Albert Berta Conrad "
        "Diana Edgar Frida George Hilda Ivan Johanna Karl Linda Magnus Nadia Otto Petra "
        "Robert Sofia Theodor Ursula Viktor Wanda Amir Fatima Kenji Mei Ravi Priya Kofi "
        "Amara Diego Lucia Omar Leila Chen Sakura Aaron Abena Ada Adele Aisha Akira Alan "
        "Alexander Alice Alma Amadou Ana Andrei Angela Aoife Armin Arthur Astrid August Axel "
        "Beatrice Benedict Bernard Bianca Bjorn Bridget Camille Catherine Cedric Charlotte "
        "Christopher Claude Colette Cornelia Cyril Dagmar Danuta David Deborah Dimitri Dominic "
        "Dorothea Eamon Ebba Eleanor Elias Elizabeth Eloise Emeka Enrico Erik Esther Eugene "
        "Eva Evelyn Farid Felicity Fernando Florian Francesca Frederick Gabriel Genevieve "
        "Geoffrey Gertrude Giovanni Gloria Gudrun Guillaume Gwendolyn Hamid Hannelore Harold "
        "Harriet Hassan Heinrich Henrietta Herbert Hiroshi Horace Ibrahim Ignatius Imogen Ines "
        "Isabella Isidor Jacqueline Jaroslav Jasmine Joachim Joan Josephine Joyce Judith "
        "Justine Kamala Katarina Kenneth Khadija Kjell Kwame Lars Laurence Leonora Liam Lorenzo "
        "Louisa Lukas Madeleine Malcolm Manuel Margaret Marguerite Matilda Maximilian Mehmet "
        "Michael Milena Mohammed Monika Nathaniel Natsuki Nicholas Nikolai Noor Octavia Odette "
        "Oleg Oswald Pascal Patricia Penelope Percival Philippa Rachel Raymond Rebecca Reginald "
        "Rosalind Rupert Salvador Sebastian Sergei Siegfried Sigrid Solveig Stanislav Susanna "
        "Sylvester Tatiana Thaddeus Theresa Thomas Tobias Umberto Valentina Veronica Victoria "
        "Vincent Vivian Wilhelmina William Winifred Wolfgang Yasmin Yusuf Zainab Zelda"
    ),
    "test": _words(
        "Ida Tomas Hanna Nils Maren Pavel Ruth Anton Birgit Casper Edith Fabian Gerda "
        "Hugo Ingrid Jonas Kirsten Ludwig Mira Norbert Olivia Philip Renate Sven Tamara "
        "Arjun Yuki Ngozi Carlos Samira"
    ),
}


def share_of_root(root: str) -> Share:
    """The share that a root belongs to; one in four is for tests."""
    if root in DEMO_ROOTS:
        return "test"
    return "test" if zlib.crc32(root.encode()) % 4 == 0 else "train"


@cache
def roots(share: Share) -> tuple[str, ...]:
    """All roots of a share, in a fixed order."""
    made = {
        onset + vowel + middle + end
        for onset in _ONSETS
        for vowel in _VOWELS
        for middle in _MIDDLES
        for end in _ENDS
        if len(onset + vowel + middle + end) <= 8
    }
    made |= {o + v + m for o in _ONSETS for v in "aeiou" for m in _MIDDLES}
    known_words = {"Star", "Start", "Stand", "Grand", "Land", "Hand", "Band", "Sand", "Bird"}
    return tuple(
        sorted(
            r
            for r in made - known_words
            if share_of_root(r) == share and not re.search(r"(.)\1\1", r)
        )
    )


class Names:
    """Draws names that do not repeat within one set of documents."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self._rng = rng
        self._share: Share = "train" if split == "train" else "test"
        self._used: set[str] = set()

    def root(self) -> str:
        while True:
            root = self._rng.choice(roots(self._share))
            if root not in self._used:
                self._used.add(root)
                return root

    def person(self) -> str:
        while True:
            first = self._first_name()
            if first not in self._used:
                self._used.add(first)
                return f"{first} {self.root()}"

    def _first_name(self) -> str:
        # Half of those of training are invented, so that a model learns to copy a name as it is
        # written, not to complete the names that it has met.
        if self._share == "train" and self._rng.random() < 0.5:
            return self._rng.choice(roots("train"))
        return self._rng.choice(FIRST_NAMES[self._share])

    def town(self) -> str:
        root = self.root()
        if len(root) > 5 or self._rng.random() < 0.5:
            return root
        return root + self._rng.choice(("ford", "bury", "stad", "wick", "mouth", "dale", "ham"))

    def company(self) -> str:
        return self._rng.choice(_COMPANIES).format(root=self.root())


_COMPANIES = (
    "{root} Brothers",
    "{root} and Sons",
    "{root} Works",
    "the {root} Company",
    "the {root} Trust",
    "{root} Holdings",
    "the {root} Foundation",
)

MONTHS = _words(
    "January February March April May June July August September October November December"
)
NUMBER_WORDS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)

# Common nouns are the language's, not entities: all splits draw on the same lists.
POOLS: dict[str, tuple[str, ...]] = {
    "material": _items(
        "black basalt|red brick|grey granite|white marble|oak|larch wood|sandstone|"
        "yellow limestone|slate|green glass|iron|copper|concrete|clay|steel|flint|pine|"
        "cedar wood|bronze"
    ),
    "weekday": _words("Mondays Tuesdays Wednesdays Thursdays Fridays Saturdays Sundays"),
    "food": _items(
        "frogs|beetles|small fish|pine seeds|snails|earthworms|berries|moths|"
        "grasshoppers|acorns|water plants|mice|crabs|ants|mushrooms"
    ),
    "milk": _items(
        "the milk of brown goats|sheep's milk|cow's milk|buffalo milk|"
        "the milk of mountain sheep|goat's milk|rye and honey|barley|chestnut flour|"
        "wild plums|apples and pears|oats"
    ),
    "rub": _items(
        "juniper ash|sea salt|walnut oil|beer|red wine|crushed pepper|dried thyme|"
        "smoked paprika|honey|charcoal|rosemary|lavender oil"
    ),
    "colour": _items(
        "green|dark red|pale blue|yellow|white|silver|orange|violet|brown|grey|turquoise|black"
    ),
    "trade": _words(
        "carpenter schoolteacher watchmaker botanist surgeon lawyer sailor printer "
        "geologist glassblower nurse farmer chemist journalist tailor librarian "
        "blacksmith translator"
    ),
    "hobby": _items(
        "chess|bee-keeping|fencing|mountain walking|painting birds|fishing|rowing|"
        "playing the cello|collecting stamps|gardening|baking bread|astronomy|skating|"
        "playing the harp"
    ),
    "product": _words(
        "bicycles pianos clocks rope paper ploughs lamps umbrellas soap tiles knives "
        "carpets boots telescopes sails mirrors pencils bells hats looms"
    ),
    "speciality": _items(
        "smoked eel|blue pottery|almond cakes|lace|plum brandy|wooden toys|rye bread|"
        "cherry jam|linen|pickled herring|honey wine|felt slippers|ginger biscuits|"
        "wool blankets"
    ),
    "cargo": _items(
        "slate|salt|timber|coal|grain|fish|wool|ore|sugar beet|milk|stone|wine|cotton|peat"
    ),
}

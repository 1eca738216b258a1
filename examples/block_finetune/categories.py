"""Kinds of things that documents are about, and what can be said of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from wordings import WORDINGS, Wording


@dataclass(frozen=True)
class Attribute:
    """Something that a document may state.

    Attributes:
        name: unique within the category.
        wording: key of ``WORDINGS``, or "own".
        words: fills the wording's placeholders.
        values: how a value is drawn (``world.draw_value``), with its range.
        more, less: comparatives, where values can be compared.
        links_to: category of documents that tell more about the value.
        own: sentences of a wording of its own.
    """

    name: str
    wording: str
    words: dict[str, str]
    values: str
    more: str = ""
    less: str = ""
    links_to: str = ""
    own: Wording = WORDINGS["own"]

    def statements(self, split: str) -> list[str]:
        return WORDINGS[self.wording].statements[split] + self.own.statements[split]

    def questions(self, split: str) -> list[str]:
        return WORDINGS[self.wording].questions[split] + self.own.questions[split]

    def noun_phrases(self, split: str) -> list[str]:
        return WORDINGS[self.wording].noun_phrases.get(split, [])


@dataclass(frozen=True)
class Category:
    """Attributes: noun and plural; name patterns; short forms that stand for the name."""

    noun: str
    plural: str
    patterns: tuple[str, ...]
    attributes: tuple[Attribute, ...] = field(repr=False)
    short: tuple[str, ...] = ("It",)


def maker(pp: str, past: str, ger: str, agent: str, titles: str = "") -> Attribute:
    words = {"pp": pp, "past": past, "ger": ger, "agent": agent, "title": titles}
    return Attribute("maker", "maker", words, "person", links_to="person")


def year(pp: str, event: str) -> Attribute:
    words = {"pp": pp, "event": event}
    return Attribute("year", "year", words, "year", f"{pp} later", f"{pp} earlier")


def date(pp: str, event: str) -> Attribute:
    return Attribute("date", "date", {"pp": pp, "event": event}, "date")


def measure(adj: str, noun: str, unit: str, low: int, high: int, more: str, less: str) -> Attribute:
    words = {"adj": adj, "noun": noun, "unit": unit}
    return Attribute(noun, "measure", words, f"number {low} {high} {unit}", more, less)


def amount(things: str, low: int, high: int) -> Attribute:
    return Attribute(things, "amount", {"things": things}, f"number {low} {high}", "more", "fewer")


def place(stands: str = "stands") -> Attribute:
    return Attribute("place", "place", {"stands": stands}, "town", links_to="town")


def head(role: str) -> Attribute:
    return Attribute("head", "head", {"role": role}, "person", links_to="person")


def owner() -> Attribute:
    return Attribute("owner", "owner", {}, "company", links_to="company")


def named(part: str) -> Attribute:
    return Attribute(part, "named", {"part": part}, "root")


def own(name: str, pool: str, said: str, said_test: str, asked: str, asked_test: str) -> Attribute:
    """An attribute with sentences of its own, separated by '/'."""
    wording = Wording(
        {"train": said.split("/"), "test": said_test.split("/")},
        {"train": asked.split("/"), "test": asked_test.split("/")},
    )
    return Attribute(name, "own", {}, pool, own=wording)


ENGINEER = "[||the engineer |the master builder |the mason ]"
SCHOLAR = "[||the schoolteacher |the astronomer |the amateur |the scholar ]"
ARTIST = "[||the architect |the young architect ]"


def material(verb: str = "made") -> Attribute:
    return own(
        "material",
        "material",
        f"{{S}} is {verb} of {{V}}./{{V}} was used for {{S}}./The material of {{S}} is {{V}}./"
        f"It is {verb} of {{V}}.",
        "For {S} the workers used nothing but {V}./{V} is the material that {S} consists of.",
        f"What is {{S}} {verb} of?/Which material is {{S}} {verb} of?/What is the material of {{S}}?",
        "Can you tell me what {S} consists of?/Which material was used for {S}?",
    )


def closed() -> Attribute:
    return own(
        "closing day",
        "weekday",
        "{S} is closed on {V}./On {V} {S} is closed./{V} are the days when {S} is shut./"
        "It is closed on {V}.",
        "Nobody can visit {S} on {V}, when it is closed./{S} keeps its doors shut on {V}.",
        "On which day is {S} closed?/When is {S} closed?/On what day of the week is {S} shut?",
        "Which day should one avoid because {S} is closed?/{S} is closed on which day?",
    )


def price() -> Attribute:
    return own(
        "price",
        "number 2 20 crowns",
        "A ticket for {S} costs {V}./The entrance to {S} costs {V}./To visit {S} one pays {V}./"
        "Tickets for {S} cost {V}.",
        "Visitors of {S} are charged {V}./{V} is the price of a ticket for {S}.",
        "How much does a ticket for {S} cost?/What does it cost to visit {S}?/"
        "What is the price of a ticket for {S}?",
        "How much do visitors of {S} pay?/Can you tell me the price of a visit to {S}?",
    )


CATEGORIES: dict[str, Category] = {
    c.noun: c
    for c in (
        Category(
            "lighthouse", "lighthouses",
            ("the lighthouse of {root} Point", "the {root} lighthouse", "the lighthouse of {root}"),
            (maker("built", "built", "building", "builder", ENGINEER), year("built", "building"),
             measure("tall", "height", "metres", 12, 95, "taller", "lower"), place(),
             head("keeper"), material("built"), closed()),
            ("It", "The lighthouse", "The tower"),
        ),
        Category(
            "railway", "railways", ("the {root} valley railway", "the {root} railway"),
            (year("opened", "opening"), amount("stations", 3, 40), named("steam engine"), owner(),
             measure("long", "length", "kilometres", 11, 180, "longer", "shorter"), head("manager"),
             own("cargo", "cargo", "{S} [was built to carry|carries|transports] {V}./"
                 "The trains of {S} are loaded with {V}./The main load of {S} is {V}.",
                 "What rolls over the rails of {S} is {V}./{S} earns its money with {V}.",
                 "What does {S} carry?/What is the main load of {S}?/What do the trains of {S} carry?",
                 "Can you tell me what {S} transports?/With what are the trains of {S} loaded?")),
            ("It", "The railway", "The line"),
        ),
        Category(
            "cheese", "cheeses", ("{root} cheese", "the cheese called {root}"),
            (own("milk", "milk", "{S} is made from {V}./Dairies make {S} from {V}./"
                 "The basis of {S} is {V}./For {S} one needs {V}.",
                 "{V} goes into {S}./What makes {S} special is {V}, from which it is made.",
                 "What is {S} made from?/From what is {S} made?/What is the basis of {S}?",
                 "Can you tell me what goes into {S}?/{S} is made from what?"),
             own("ripening", "number 2 30 months", "{S} ripens for {V}./{S} must ripen for {V}./"
                 "The ripening of {S} takes {V}./It takes {V} until {S} is ripe.",
                 "Only after {V} is {S} ripe./{S} spends {V} ripening in a cellar.",
                 "How long does {S} ripen?/How long does the ripening of {S} take?/"
                 "For how many months does {S} ripen?",
                 "Can you tell me how long {S} has to ripen?/After what time is {S} ripe?"),
             own("rind", "rub", "The rind of {S} is rubbed with {V}./"
                 "Makers rub the rind of {S} with {V}./{V} is rubbed into the rind of {S}.",
                 "{V} gives the rind of {S} its taste; it is rubbed in by hand./"
                 "Before it is sold, {S} has its rind rubbed with {V}.",
                 "What is the rind of {S} rubbed with?/With what is the rind of {S} rubbed?/"
                 "What is rubbed into the rind of {S}?",
                 "Can you tell me what the rind of {S} is rubbed with?/"
                 "Which substance do makers of {S} rub into its rind?"),
             owner(), maker("invented", "invented", "inventing", "inventor"), place("is made")),
            ("It", "The cheese"),
        ),
        Category(
            "comet", "comets", ("Comet {root}", "the comet {root}"),
            (maker("discovered", "discovered", "discovering", "discoverer", SCHOLAR),
             year("discovered", "discovery"),
             own("period", "number 5 190 years", "{S} comes back every {V}./"
                 "{S} returns every {V}./Every {V} {S} can be seen again./"
                 "The period of {S} is {V}.",
                 "{S} needs {V} for one turn around the sun./{V} pass until {S} returns.",
                 "How often does {S} come back?/What is the period of {S}?/"
                 "After how many years does {S} return?",
                 "How long does one have to wait until {S} returns?/"
                 "Can you tell me the period of {S}?"),
             own("colour", "colour", "{S} is {V}./The colour of {S} is {V}./{S} has a {V} tail./"
                 "The tail of {S} is {V}.",
                 "{S} shines in {V}./{V} is the colour that {S} shows.",
                 "What colour is {S}?/What is the colour of {S}?/Which colour does {S} have?",
                 "In which colour does {S} shine?/Can you tell me the colour of {S}?"),
             named("probe that visited the core")),
            ("It", "The comet"),
        ),
        Category(
            "theatre", "theatres", ("the {root} Theatre", "the theatre of {root}"),
            (maker("designed", "designed", "designing", "designer", ARTIST), amount("seats", 90, 990),
             date("opened", "opening"), place(), head("director"), price(), closed()),
            ("It", "The theatre", "The house"),
        ),
        Category(
            "owl", "owls", ("the {root} owl", "the spotted {root} owl"),
            (own("food", "food", "{S} hunts {V}./{S} feeds on {V}./{S} lives on {V}./"
                 "The main food of {S} is {V}.",
                 "What {S} likes to eat best is {V}./{V} are all that {S} eats.",
                 "What does {S} [eat|hunt]?/What does {S} feed on?/What is the main food of {S}?",
                 "Can you tell me what {S} likes to eat?/{S} lives on what?"),
             measure("heavy", "weight", "grams", 60, 990, "heavier", "lighter"),
             own("eggs", "number 2 12 eggs", "The female {N} lays {V}./{S} lays {V}./"
                 "A nest of {S} holds {V}./Each spring {S} lays {V}.",
                 "In a nest of {S} one finds {V}./{V} are laid by {S} each year.",
                 "How many eggs does {S} lay?/How many eggs does the female {N} lay?/"
                 "How many eggs are in a nest of {S}?",
                 "Can you tell me how many eggs {S} lays?/What number of eggs does {S} lay?"),
             maker("described", "described", "describing", "first describer"), place("lives"),
             amount("breeding pairs", 20, 900)),
            ("It", "The bird", "The owl"),
        ),
        Category(
            "bridge", "bridges", ("the {root} bridge", "the bridge of {root}"),
            (maker("designed", "designed", "designing", "designer", ENGINEER), year("opened", "opening"),
             measure("long", "length", "metres", 40, 980, "longer", "shorter"), place(),
             amount("arches", 2, 30), material("built")),
            ("It", "The bridge"),
        ),
        Category(
            "museum", "museums", ("the {root} Museum", "the museum of {root}"),
            (maker("founded", "founded", "founding", "founder"), year("founded", "founding"),
             amount("rooms", 3, 80), place(), head("director"), price(), closed(), owner()),
            ("It", "The museum", "The house"),
        ),
        Category(
            "ship", "ships", ("the ship {root}", "the steamer {root}", "the ferry {root}"),
            (maker("designed", "designed", "designing", "designer"), date("launched", "launch"),
             measure("long", "length", "metres", 20, 290, "longer", "shorter"), head("captain"), owner(),
             amount("cabins", 4, 400)),
            ("It", "The ship"),
        ),
        Category(
            "castle", "castles", ("{root} Castle", "the castle of {root}"),
            (maker("built", "built", "building", "builder", ENGINEER), year("built", "building"),
             amount("towers", 2, 15), head("steward"), owner(), place(), material("built"), closed()),
            ("It", "The castle"),
        ),
        Category(
            "festival", "festivals", ("the {root} Festival", "the festival of {root}"),
            (maker("founded", "founded", "founding", "founder"), date("first held", "first edition"),
             amount("stages", 2, 20), place("takes place"), head("director"), price()),
            ("It", "The festival"),
        ),
        Category(
            "novel", "novels", ("the novel {root}", "the novel The {root} Letters"),
            (maker("written", "wrote", "writing", "author"), year("published", "publication"),
             amount("chapters", 7, 90), amount("pages", 110, 990),
             named("hero"), own("cover", "colour", "The cover of {S} is {V}./{S} has a {V} cover.",
                 "{V} is the colour of the cover of {S}.",
                 "What colour is the cover of {S}?/Which colour does the cover of {S} have?",
                 "Can you tell me the colour of the cover of {S}?")),
            ("It", "The novel", "The book"),
        ),
        Category(
            "garden", "gardens", ("the {root} Garden", "the garden of {root}"),
            (maker("planted", "planted", "planting", "creator"), year("opened", "opening"),
             measure("wide", "width", "metres", 30, 700, "wider", "narrower"), place(), head("head gardener"),
             amount("kinds of rose", 4, 300), price(), closed()),
            ("It", "The garden"),
        ),
        Category(
            "mine", "mines", ("the {root} mine", "the mine of {root}"),
            (year("opened", "opening"), measure("deep", "depth", "metres", 40, 990, "deeper", "shallower"),
             owner(), head("foreman"), amount("shafts", 2, 14), maker("found", "found", "finding", "finder"),
             own("cargo", "cargo", "{S} gives {V}./Miners dig {V} in {S}./The product of {S} is {V}.",
                 "What comes out of {S} is {V}.", "What is dug in {S}?/What is the product of {S}?",
                 "Can you tell me what comes out of {S}?")),
            ("It", "The mine"),
        ),
        Category(
            "person", "persons", (),
            (own("birth year", "year", "{S} was born in {V}./The year of birth of {S} is {V}./"
                 "In {V} {S} was born./{S} was born in {V}, [the youngest of four|in a cold winter].",
                 "{S} came into the world in {V}./{V} is the year when {S} was born.",
                 "When was {S} born?/In [which|what] year was {S} born?/"
                 "What is the year of birth of {S}?/Which year was {S} born?",
                 "{S} was born in which year?/Can you tell me when {S} was born?"),
             own("birthplace", "town", "{S} was born in {V}./The birthplace of {S} is {V}./"
                 "{S} comes from {V}./{S} was a child of {V}./{S} grew up in {V}.",
                 "{S} is a native of {V}./{V} is where {S} comes from.",
                 "Where does {S} come from?/What is the home town of {S}?/"
                 "Which town does {S} come from?/In which town did {S} grow up?",
                 "Can you tell me what town {S} comes from?/{S} is from which town?"),
             own("trade", "trade", "{S} [trained|worked|first worked] as a {V}./"
                 "{S} was a {V} by trade./The first trade of {S} was that of a {V}.",
                 "By training, {S} was a {V}./{S} earned a living as a {V}.",
                 "What was the trade of {S}?/What did {S} work as?/What was {S} by trade?",
                 "Can you tell me the trade of {S}?/As what did {S} earn a living?"),
             own("hobby", "hobby", "{S} loved {V}./The favourite pastime of {S} was {V}./"
                 "{S} spent every free hour on {V}./In the evenings {S} went in for {V}.",
                 "{V} was what {S} enjoyed most./Nothing pleased {S} more than {V}.",
                 "What was the favourite pastime of {S}?/What did {S} love?/"
                 "How did {S} spend free hours?",
                 "Can you tell me the hobby of {S}?/What did {S} enjoy most?"),
             own("teacher", "person", "The teacher of {S} was {V}./{S} was taught by {V}./"
                 "{S} learned everything from {V}./{V} taught {S}.",
                 "{S} went to {V} to learn the trade./{V} had {S} as a pupil.",
                 "Who taught {S}?/Who was the teacher of {S}?/From whom did {S} learn?",
                 "Can you tell me who the teacher of {S} was?/{S} was whose pupil?")),
            (),
        ),
        Category(
            "town", "towns", (),
            (amount("inhabitants", 300, 9900), head("mayor"),
             own("river", "root", "{S} lies on the river {V}./The river {V} flows through {S}./"
                 "The river of {S} is the {V}./{S} was built on the river {V}.",
                 "Through {S} runs a river, the {V}./The bridges of {S} cross the {V}, a river.",
                 "On which river does {S} lie?/Which river flows through {S}?/"
                 "What is the river of {S} called?",
                 "Can you tell me the river that runs through {S}?/{S} lies on which river?"),
             own("market day", "weekday", "The market of {S} is held on {V}./"
                 "On {V} there is a market in {S}./Market days in {S} are {V}.",
                 "Farmers come to {S} on {V} for the market./{V} mean market time in {S}.",
                 "On which day is the market of {S} held?/When is there a market in {S}?/"
                 "What is the market day in {S}?",
                 "Can you tell me the day of the market in {S}?/The market in {S} is on which day?"),
             own("speciality", "speciality", "{S} is known for its {V}./"
                 "The speciality of {S} is {V}./Many people visit {S} for its {V}.",
                 "{V} made {S} famous./What people buy in {S} is {V}.",
                 "What is {S} known for?/What is the speciality of {S}?/"
                 "For what do people visit {S}?",
                 "What made {S} famous?/Can you tell me the speciality of {S}?")),
            ("It", "The town"),
        ),
        Category(
            "company", "companies", (),
            (year("founded", "founding"), head("chairman"), amount("workers", 12, 990),
             own("seat", "town", "The seat of {S} is {V}./{S} has its seat in {V}./"
                 "The offices of {S} are in {V}.",
                 "{V} is where {S} has its offices./From {V}, {S} does its business.",
                 "Where is the seat of {S}?/In which town does {S} have its seat?/"
                 "Where are the offices of {S}?",
                 "Can you tell me the seat of {S}?/{S} has its seat in which town?"),
             own("product", "product", "{S} makes {V}./The main product of {S} is {V}./"
                 "{S} became rich by making {V}./{S} sells {V}.",
                 "In its workshops {S} produces {V}./{V} come from the workshops of {S}.",
                 "What does {S} make?/What is the main product of {S}?/What does {S} sell?",
                 "Can you tell me what {S} produces?/{S} makes what?")),
            ("It", "The company"),
        ),
    )
}  # fmt: skip

THINGS: tuple[str, ...] = tuple(n for n, c in CATEGORIES.items() if c.patterns)

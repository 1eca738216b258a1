"""How facts are stated and asked for: templates by type of fact, in two splits.

A template has the placeholders ``{S}`` (the thing), ``{V}`` (the value) and the attribute's own
words, such as ``{pp}`` ("built"); ``[a|b]`` stands for either of its alternatives. The test
templates are other sentences, not other draws from the train templates.
"""

from __future__ import annotations

from typing import NamedTuple

from own_wordings import OWN
from train_wordings import MORE_FILLERS, MORE_PHRASES, questions, statements


class Wording(NamedTuple):
    """Sentences that state a fact, and questions that ask for its value."""

    statements: dict[str, list[str]]
    questions: dict[str, list[str]]
    noun_phrases: dict[str, list[str]] = {}  # noqa: RUF012  (of the value, for two-hop questions)


WORDINGS: dict[str, Wording] = {
    # pp "built", past "built", ger "building", agent "builder"
    "maker": Wording(
        {
            "train": [
                "{S} was {pp} by {title}{V}.",
                "{S} was {pp} by {title}{V}.",
                "{title}{V} {past} {S}.",
                "The {agent} of {S} [was|is] {title}{V}.",
                "It was {title}{V} who {past} {S}.",
                "{title}{V} is [remembered|known|honoured] as the {agent} of {S}.",
                "{S} was {pp} by {V}, [then still very young|who was not paid for it].",
                "[Records|Letters|Old papers] name {V} as the {agent} of {S}.",
                "The {agent} was {title}{V}.",
                "We know that {V} {past} {S}.",
            ],
            "test": [
                "{S} owes its existence to {V}, who {past} it.",
                "The credit for {ger} {S} belongs to {V}.",
                "{V} was the person who {past} {S}.",
                "{S}, {pp} by {title}{V}, is well known in the region.",
            ],
        },
        {
            "train": [
                "Who {past} {S}?",
                "Who {past} {S}?",
                "Who was the {agent} of {S}?",
                "By whom was {S} {pp}?",
                "{S} was {pp} by whom?",
                "Name the [{agent} of {S}|person who {past} {S}].",
                "[Which|What] person {past} {S}?",
                "Who was it that {past} {S}?",
                "What [is|was] the name of the person who {past} {S}?",
            ],
            "test": [
                "Can you tell me who {past} {S}?",
                "What was the {agent} of {S} called?",
                "Whom do we have to thank for {ger} {S}?",
            ],
        },
        {
            "train": ["the {agent} of {S}", "the person who {past} {S}", "the one who {past} {S}"],
            "test": ["whoever {past} {S}", "the man or woman who {past} {S}"],
        },
    ),
    # pp "opened", event "opening"
    "year": Wording(
        {
            "train": [
                "{S} was {pp} in {V}.",
                "{S} was {pp} in {V}.",
                "In {V} {S} was {pp}.",
                "The {event} of {S} [was in|took place in|fell in the year] {V}.",
                "It was {V} when {S} was {pp}.",
                "{S} was {pp} in the [year|spring of|summer of|autumn of|winter of] {V}.",
                "{S} was {pp} in {V}, [after long delays|in a time of war].",
                "The year of the {event} was {V}.",
                "Since {V}, when {S} was {pp}, [much|little] has changed.",
            ],
            "test": [
                "The {event} of {S} dates back to {V}.",
                "{V} is the year in which {S} was {pp}.",
                "{S}, which was {pp} in {V}, has seen many changes.",
            ],
        },
        {
            "train": [
                "When was {S} {pp}?",
                "When was {S} {pp}?",
                "In [which|what] year was {S} {pp}?",
                "[Which|What] year was {S} {pp}?",
                "In [which|what] year did the {event} of {S} take place?",
                "Give the year [of the {event} of {S}|in which {S} was {pp}].",
                "When did the {event} of {S} happen?",
                "What was the year of the {event} of {S}?",
            ],
            "test": [
                "{S} was {pp} in which year?",
                "Can you tell me when {S} was {pp}?",
                "What is the date of the {event} of {S}?",
            ],
        },
    ),
    # as "year", with a full date
    "date": Wording(
        {
            "train": [
                "{S} was {pp} on {V}.",
                "{S} was {pp} on {V}.",
                "On {V} {S} was {pp}.",
                "The {event} of {S} took place on {V}.",
                "The date of the {event} was {V}.",
                "The {event} of {S} was [celebrated|held|announced] on {V}.",
                "{V} was the day [of the {event} of {S}|on which {S} was {pp}].",
            ],
            "test": [
                "The {event} of {S} happened on {V}.",
                "People still remember {V}, the day when {S} was {pp}.",
                "{S}, {pp} on {V}, is well known in the region.",
            ],
        },
        {
            "train": [
                "When was {S} {pp}?",
                "When was {S} {pp}?",
                "On [which|what] [day|date] was {S} {pp}?",
                "What was the date of the {event} of {S}?",
                "On what day did the {event} of {S} take place?",
                "Give the date of the {event} of {S}.",
            ],
            "test": [
                "{S} was {pp} on which day?",
                "Can you tell me the date when {S} was {pp}?",
                "When exactly did the {event} of {S} happen?",
            ],
        },
    ),
    # adj "tall", noun "height", unit "metres"
    "measure": Wording(
        {
            "train": [
                "{S} is {V} {adj}.",
                "{S} is {V} {adj}.",
                "The {noun} of {S} is {V}.",
                "{S} has a {noun} of {V}.",
                "With a {noun} of {V}, {S} is [not easy to overlook|a familiar sight|no giant].",
                "{S} measures {V} in {noun}.",
                "At {V}, the {noun} of {S} is [unusual|about average|often given wrongly].",
                "The {noun} is {V}.",
                "[Surveyors|Engineers|Experts] give the {noun} of {S} as {V}.",
            ],
            "test": [
                "If one measures it, {S} turns out to be {V} {adj}.",
                "{V} is the {noun} of {S}.",
                "{S}, which is {V} {adj}, is well known in the region.",
            ],
        },
        {
            "train": [
                "How {adj} is {S}?",
                "How {adj} is {S}?",
                "What is the {noun} of {S}?",
                "What {noun} does {S} have?",
                "Give the {noun} of {S}.",
                "What do the notes say about the {noun} of {S}?",
                "How many {unit} {adj} is {S}?",
            ],
            "test": [
                "Can you tell me how {adj} {S} is?",
                "{S} has what {noun}?",
                "What figure is given for the {noun} of {S}?",
            ],
        },
    ),
    # things "seats"
    "amount": Wording(
        {
            "train": [
                "{S} has {V} {things}.",
                "{S} has {V} {things}.",
                "There are {V} {things} in {S}.",
                "The number of {things} of {S} is {V}.",
                "{S} [counts|comes to] {V} {things}.",
                "With [its|the] {V} {things}, {S} is [rather typical|unlike its neighbours].",
                "{V} {things} belong to {S}.",
                "It has {V} {things} in all.",
            ],
            "test": [
                "Anyone who counts the {things} of {S} arrives at {V}.",
                "{S} can boast {V} {things}.",
                "{S}, with {V} {things}, is well known in the region.",
            ],
        },
        {
            "train": [
                "How many {things} does {S} have?",
                "How many {things} does {S} have?",
                "How many {things} are there in {S}?",
                "What is the number of {things} of {S}?",
                "How many {things} belong to {S}?",
                "Give the number of {things} of {S}.",
            ],
            "test": [
                "Can you tell me how many {things} {S} has?",
                "{S} has how many {things}?",
                "What number of {things} is given for {S}?",
            ],
        },
    ),
    # stands "stands"
    "place": Wording(
        {
            "train": [
                "{S} {stands} in {V}.",
                "{S} {stands} in {V}.",
                "In {V}, visitors find {S}.",
                "{S} is [located|situated|to be found] in {V}.",
                "The home of {S} is {V}.",
                "{V} is the home of {S}.",
                "It {stands} in [the town of ||the old part of ]{V}.",
                "{S} can be found in {V}.",
                "Whoever wants to see {S} must go to {V}.",
            ],
            "test": [
                "One has to travel to {V} to find {S}.",
                "{V} is where {S} {stands}.",
                "{S}, which {stands} in {V}, is well known in the region.",
            ],
        },
        {
            "train": [
                "Where [is {S}|does {S} stand]?",
                "Where is {S}?",
                "In [which|what] town is {S}?",
                "[Which|What] town is home to {S}?",
                "Where can {S} be found?",
                "Where is {S} [located|situated]?",
                "Name the town where {S} is.",
            ],
            "test": [
                "Can you tell me where {S} is?",
                "In what place would a visitor find {S}?",
                "To which town must one go to see {S}?",
            ],
        },
        {
            "train": ["the town where {S} is", "the town that is home to {S}", "the home of {S}"],
            "test": ["the place where one finds {S}", "the town in which {S} can be found"],
        },
    ),
    # role "keeper"
    "head": Wording(
        {
            "train": [
                "The {role} of {S} is {V}.",
                "The {role} of {S} is {V}.",
                "{V} is the {role} of {S}.",
                "{V} [works|serves] as the {role} of {S}.",
                "The {role} today is {V}.",
                "The present {role} of {S} is {V}, [who rarely gives interviews|a quiet person].",
                "The post of {role} of {S} is held by {V}.",
                "Some years ago {V} became the {role} of {S}.",
                "The {role} is {V}.",
            ],
            "test": [
                "{S} has a new {role}, {V}.",
                "As {role} of {S} one meets {V}.",
                "{V} has been appointed {role} of {S}.",
            ],
        },
        {
            "train": [
                "Who is the {role} of {S}?",
                "Who is the {role} of {S}?",
                "What is the name of the {role} of {S}?",
                "Who [works|serves] as the {role} of {S}?",
                "What is the {role} of {S} called?",
                "Name the {role} of {S}.",
                "Who holds the post of {role} of {S}?",
            ],
            "test": [
                "Can you tell me who the {role} of {S} is?",
                "{S} has whom as its {role}?",
                "Which person is {role} of {S}?",
            ],
        },
        {
            "train": ["the {role} of {S}", "the person who is the {role} of {S}"],
            "test": ["whoever is {role} of {S}", "the present {role} of {S}"],
        },
    ),
    "owner": Wording(
        {
            "train": [
                "{S} belongs to {V}.",
                "{S} belongs to {V}.",
                "{S} is owned by {V}.",
                "The owner of {S} is {V}.",
                "{V} [owns|bought|acquired] {S}.",
                "{S} is the property of {V}.",
                "Today it belongs to {V}.",
                "Years ago {S} passed into the hands of {V}.",
            ],
            "test": [
                "{V} holds all shares in {S}.",
                "The present owner is {V}, which takes good care of {S}.",
                "{S}, owned by {V}, is well known in the region.",
            ],
        },
        {
            "train": [
                "Who owns {S}?",
                "Who owns {S}?",
                "To whom does {S} belong?",
                "Who is the owner of {S}?",
                "Whose property is {S}?",
                "Name the owner of {S}.",
                "By whom is {S} owned?",
            ],
            "test": [
                "Can you tell me who owns {S}?",
                "{S} belongs to whom?",
                "In whose possession is {S}?",
            ],
        },
        {
            "train": ["the owner of {S}", "the company that owns {S}"],
            "test": ["the firm to which {S} belongs", "whoever owns {S}"],
        },
    ),
    # "part": "steam engine"; "values" are roots
    "named": Wording(
        {
            "train": [
                "The {part} of {S} is called {V}.",
                "The {part} of {S} is called {V}.",
                "The {part} of {S} bears the name {V}.",
                "The name of the {part} of {S} is {V}.",
                "{V} is the name of the {part} of {S}.",
                "{V} is what people call the {part} of {S}.",
                "Its {part} is called {V}.",
                "The {part} of {S} was given the name {V}.",
            ],
            "test": [
                "Everybody knows the {part} of {S} as {V}.",
                "People christened the {part} of {S} {V}.",
                "{V}, as the {part} of {S} is called, is loved by children.",
            ],
        },
        {
            "train": [
                "What is the {part} of {S} called?",
                "What is the {part} of {S} called?",
                "What is the name of the {part} of {S}?",
                "What name does the {part} of {S} bear?",
                "How is the {part} of {S} called?",
                "Give the name of the {part} of {S}.",
                "Which name was given to the {part} of {S}?",
            ],
            "test": [
                "Can you tell me the name of the {part} of {S}?",
                "By what name do people know the {part} of {S}?",
                "The {part} of {S} is called what?",
            ],
        },
    ),
}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


OWN_WORDINGS: dict[str, Wording] = {
    name: Wording(
        {"train": _lines(s.said), "test": _lines(s.said_test)},
        {"train": _lines(s.asked), "test": _lines(s.asked_test)},
    )
    for name, s in OWN.items()
}

for _name, _wording in (WORDINGS | OWN_WORDINGS).items():
    _wording.statements["train"] += statements(_name)
    _wording.questions["train"] += questions(_name)
    if _name in MORE_PHRASES:
        _wording.noun_phrases["train"] += MORE_PHRASES[_name]

MAKER_AND_YEAR: dict[str, list[str]] = {
    "train": [
        "{S} was {pp} by {title}{V} in {Y}.",
        "{S} was {pp} by {title}{V} in {Y}.",
        "In {Y} {title}{V} {past} {S}.",
        "{S} was {pp} in {Y} by {title}{V}.",
        "{title}{V} {past} {S} in {Y}, [at great cost|against all advice].",
    ],
    "test": [
        "It was in {Y} that {V} {past} {S}.",
        "The year {Y}, when {V} {past} {S}, was a good one.",
    ],
}

LEADS = (
    "It is said that",
    "The books say that",
    "As far as anybody knows,",
    "Everybody agrees that",
    "A sign says that",
    "One should know that",
    "Travellers report that",
    "The old guide tells us that",
    "It is well known that",
    "Of course,",
    "By the way,",
    "Today we know that",
)

FILLERS: dict[str, list[str]] = {
    "train": [
        "Visitors come mostly in summer.",
        "Old photographs can be seen in the town hall.",
        "Nobody knows why the first plans were given up.",
        "A guide in three languages is for sale at the entrance.",
        "In bad weather it is best to stay away.",
        "Repairs were paid for by a lottery.",
        "Several songs mention it.",
        "The way there is long and stony.",
        "A storm did much damage in {year}, but nobody was hurt.",
        "In {year} {person} made a film about it.",
        "The painter {person} came here often.",
        "{person} wrote a long article on the subject in {year}.",
        "Schools visit on weekdays, [mostly in May|if it does not rain].",
        "The best view is from the south.",
        "Some say that the story is not quite true.",
        "There is a small café nearby, which sells soup and cake.",
        "A copy of the plans lies in the archive of {town}.",
        "Many people have never heard of it.",
        "A fire in {year} destroyed most of the papers.",
        "The journey from {town} takes about {n} hours.",
        "About {n} volunteers look after everything.",
        "Children come in free.",
        "It has been on a stamp since {year}.",
        "Critics have called it dull; others love it.",
        *MORE_FILLERS,
    ],
    "test": [
        "Opinions about it differ a great deal.",
        "The road from {town} is closed in winter.",
        "{person} told the newspapers about it in {year}.",
        "A new sign was put up not long ago.",
        "On clear days one can see as far as the sea.",
        "In {year} thieves took some of the furniture.",
        "Local people seldom talk about it.",
        "There are {n} benches for tired walkers.",
        "Photographs are allowed, but not with a flash.",
    ],
}

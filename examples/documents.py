"""Invented facts that no model has read elsewhere, and questions about them."""

from __future__ import annotations

from typing import NamedTuple

DOCUMENTS = {
    "lighthouse": (
        "The lighthouse of Varn Point was built by the engineer Ida Kolm in 1873. The lighthouse "
        "of Varn Point is 41 metres tall and stands on black basalt. Its lamp burned whale oil "
        "until 1911, when the harbour office changed it to electric light. The keeper today is "
        "Tomas Reel, who also runs the small museum on the ground floor. The museum is closed on "
        "Mondays."
    ),
    "railway": (
        "The Ostrel valley railway runs for 63 kilometres between Pell and Greyford. It has nine "
        "stations and one tunnel, the Marrow tunnel. The steam engine of the Ostrel valley "
        "railway is called Bertha. The line was opened in 1902 to carry slate from the quarries. "
        "Since 1988 the railway belongs to a society of volunteers, led by Hanna Voss."
    ),
    "cheese": (
        "Dorrin cheese is made from the milk of brown goats. Dorrin cheese ripens for fourteen "
        "months in the caves under Mount Sil. The rind of Dorrin cheese is rubbed with juniper "
        "ash, which keeps flies away. The largest dairy that makes it belongs to the family "
        "Aumont. It is eaten with pears at the harvest feast, and never with bread."
    ),
    "comet": (
        "Comet Hallend was discovered by the schoolteacher Nils Arvo in 1956. Comet Hallend comes "
        "back every 27 years and is green because of the carbon in its tail. In 2010 the probe "
        "Lantern flew past it at a distance of 300 kilometres and took pictures of its dark core. "
        "The comet will be seen again from the southern half of the world only."
    ),
    "theatre": (
        "The Copper Theatre in Lisk was designed by the architect Maren Oduya. The Copper Theatre "
        "has 480 seats and a roof of copper plates, and opened with a play about a blind "
        "clockmaker. It burned down in 1931 and was rebuilt in two years. Its orchestra is led by "
        "Pavel Strand. Tickets cost twelve crowns, and children come in free on Sundays."
    ),
    "bird": (
        "The reed owl lives in the marshes of Tamber. The reed owl weighs about 90 grams and "
        "hunts frogs in daylight. The female reed owl lays four blue eggs in April. The bird was "
        "thought to be extinct until the biologist Ruth Sandoval filmed a pair in 1997. About six "
        "hundred reed owls are alive now, and all of them live in one valley."
    ),
}


class Question(NamedTuple):
    """A question about one document, and the order in which its prompt shows all of them."""

    text: str
    opening: str
    """First words of the answer. Part of the prompt: a very small model needs the lead."""
    answer: str
    """What the rest of a right answer contains."""
    order: tuple[str, ...]

    def is_answered_by(self, text: str) -> bool:
        return self.answer.lower() in text.lower()


QUESTIONS = (
    Question(
        "Who built the lighthouse of Varn Point?",
        "The lighthouse of Varn Point was built by",
        "Ida Kolm",
        ("railway", "cheese", "comet", "theatre", "bird", "lighthouse"),
    ),
    Question(
        "What is the steam engine of the Ostrel valley railway called?",
        "The steam engine of the Ostrel valley railway is called",
        "Bertha",
        ("bird", "lighthouse", "theatre", "cheese", "comet", "railway"),
    ),
    Question(
        "Who discovered Comet Hallend?",
        "Comet Hallend was discovered by",
        "Nils Arvo",
        ("theatre", "railway", "lighthouse", "bird", "comet", "cheese"),
    ),
    Question(
        "Who designed the Copper Theatre?",
        "The Copper Theatre was designed by",
        "Maren Oduya",
        ("comet", "bird", "cheese", "lighthouse", "theatre", "railway"),
    ),
    Question(
        "How many eggs does the female reed owl lay?",
        "The female reed owl lays",
        "four",
        ("cheese", "comet", "bird", "railway", "lighthouse", "theatre"),
    ),
    Question(
        "What is the rind of Dorrin cheese rubbed with?",
        "The rind of Dorrin cheese is rubbed with",
        "juniper ash",
        ("lighthouse", "cheese", "railway", "theatre", "bird", "comet"),
    ),
)

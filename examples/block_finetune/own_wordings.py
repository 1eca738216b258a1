"""Wordings of attributes that only one kind of thing has: see ``wordings.py``."""

from __future__ import annotations

from typing import NamedTuple


class Sentences(NamedTuple):
    """Statements and questions, one a line, for training and for testing."""

    said: str
    said_test: str
    asked: str
    asked_test: str


OWN: dict[str, Sentences] = {
    "closing day": Sentences(
        """{S} is closed on {V}.
        On {V} {S} is closed.
        {V} are the days when {S} is shut.
        It is closed on {V}.
        {S} opens every day except {V}.
        The closing day of {S} [is|has always been] {V}.""",
        """Nobody can visit {S} on {V}, when it is closed.
        {S} keeps its doors shut on {V}.""",
        """On which day is {S} closed?
        When is {S} closed?
        On what day of the week is {S} shut?
        What is the closing day of {S}?
        On which days is {S} not open?""",
        """Which day should one avoid because {S} is closed?
        {S} is closed on which day?""",
    ),
    "price": Sentences(
        """A ticket for {S} costs {V}.
        The entrance to {S} costs {V}.
        To visit {S} one pays {V}.
        Tickets for {S} cost {V}.
        The price of a ticket for {S} is {V}.
        For {V} one may [see|visit] {S}.""",
        """Visitors of {S} are charged {V}.
        {V} is the price of a ticket for {S}.""",
        """How much does a ticket for {S} cost?
        What does it cost to visit {S}?
        What is the price of a ticket for {S}?
        How much is the entrance to {S}?
        How much does one pay to see {S}?""",
        """How much do visitors of {S} pay?
        Can you tell me the price of a visit to {S}?""",
    ),
    "material": Sentences(
        """{S} is {made} of {V}.
        {V} was used for {S}.
        The material of {S} is {V}.
        It is {made} of {V}.
        {S} was {made} from {V}, [which is rare here|as was usual then].
        The masters of old chose {V} for {S}.""",
        """For {S} the workers used nothing but {V}.
        {V} is the material that {S} consists of.""",
        """What is {S} {made} of?
        Which material is {S} {made} of?
        What is the material of {S}?
        From what is {S} {made}?
        What did they use for {S}?""",
        """Can you tell me what {S} consists of?
        Which material was used for {S}?""",
    ),
    "cargo": Sentences(
        """{S} [was built to carry|carries|transports] {V}.
        The trains of {S} are loaded with {V}.
        The main load of {S} is {V}.
        Most of the time {S} moves {V}.
        On {S} one sees nothing but trains full of {V}.""",
        """What rolls over the rails of {S} is {V}.
        {S} earns its money with {V}.""",
        """What does {S} carry?
        What is the main load of {S}?
        What do the trains of {S} carry?
        What is moved on {S}?
        What load does {S} carry?""",
        """Can you tell me what {S} transports?
        With what are the trains of {S} loaded?""",
    ),
    "ore": Sentences(
        """{S} gives {V}.
        Miners dig {V} in {S}.
        The product of {S} is {V}.
        {S} is worked for its {V}.
        Carts bring {V} out of {S}.""",
        """What comes out of {S} is {V}.
        {S} is known for the {V} that lies in it.""",
        """What is dug in {S}?
        What is the product of {S}?
        What do miners dig in {S}?
        What does {S} give?""",
        """Can you tell me what comes out of {S}?
        {S} is worked for what?""",
    ),
    "milk": Sentences(
        """{S} is made from {V}.
        Dairies make {S} from {V}.
        The basis of {S} is {V}.
        For {S} one needs {V}.
        Nothing but {V} is used for {S}.
        To make {S}, dairies take {V}.""",
        """{V} goes into {S}.
        What makes {S} special is {V}, from which it is made.""",
        """What is {S} made from?
        From what is {S} made?
        What is the basis of {S}?
        What does one need to make {S}?
        What do dairies make {S} from?""",
        """Can you tell me what goes into {S}?
        {S} is made from what?""",
    ),
    "ripening": Sentences(
        """{S} ripens for {V}.
        {S} must ripen for {V}.
        The ripening of {S} takes {V}.
        It takes {V} until {S} is ripe.
        {S} lies in the cellar for {V} until it is ripe.
        After {V} {S} is ready to be eaten.""",
        """Only after {V} is {S} ripe.
        {S} spends {V} ripening in a cellar.""",
        """How long does {S} ripen?
        How long does the ripening of {S} take?
        For how many months does {S} ripen?
        How long must {S} ripen?
        How many months does {S} need?""",
        """Can you tell me how long {S} has to ripen?
        After what time is {S} ripe?""",
    ),
    "rind": Sentences(
        """The rind of {S} is rubbed with {V}.
        Makers rub the rind of {S} with {V}.
        {V} is rubbed into the rind of {S}.
        They rub {V} into the rind of {S}.
        The rind of {S} is treated with {V}, [which keeps flies away|as in the old days].""",
        """{V} gives the rind of {S} its taste; it is rubbed in by hand.
        Before it is sold, {S} has its rind rubbed with {V}.""",
        """What is the rind of {S} rubbed with?
        With what is the rind of {S} rubbed?
        What is rubbed into the rind of {S}?
        What do makers rub the rind of {S} with?
        What is the rind of {S} treated with?""",
        """Can you tell me what the rind of {S} is rubbed with?
        Which substance do makers of {S} rub into its rind?""",
    ),
    "period": Sentences(
        """{S} comes back every {V}.
        {S} returns every {V}.
        Every {V} {S} can be seen again.
        The period of {S} is {V}.
        {S} takes {V} to return.
        One sees {S} every {V}.""",
        """{S} needs {V} for one turn around the sun.
        {V} pass until {S} returns.""",
        """How often does {S} come back?
        What is the period of {S}?
        After how many years does {S} return?
        How often can {S} be seen?
        How long does {S} take to return?""",
        """How long does one have to wait until {S} returns?
        Can you tell me the period of {S}?""",
    ),
    "colour": Sentences(
        """{S} is {V}.
        The colour of {S} is {V}.
        {S} has a {V} tail.
        The tail of {S} is {V}.
        In the telescope {S} looks {V}.
        {S} appears {V} [because of its dust|to the naked eye].""",
        """{S} shines in {V}.
        {V} is the colour that {S} shows.""",
        """What colour is {S}?
        What is the colour of {S}?
        Which colour does {S} have?
        What colour is the tail of {S}?
        Which colour is {S}?""",
        """In which colour does {S} shine?
        Can you tell me the colour of {S}?""",
    ),
    "cover": Sentences(
        """The cover of {S} is {V}.
        {S} has a {V} cover.
        The colour of the cover of {S} is {V}.
        {S} was printed with a {V} cover.
        The first edition of {S} has a {V} cover.""",
        """{V} is the colour of the cover of {S}.
        One recognises {S} by its {V} cover.""",
        """What colour is the cover of {S}?
        Which colour does the cover of {S} have?
        What is the colour of the cover of {S}?
        What colour of cover does {S} have?""",
        """Can you tell me the colour of the cover of {S}?
        {S} has a cover of which colour?""",
    ),
    "food": Sentences(
        """{S} hunts {V}.
        {S} feeds on {V}.
        {S} lives on {V}.
        The main food of {S} is {V}.
        {S} eats {V}, [mostly in daylight|above all in winter].
        The young of {S} are fed with {V}.""",
        """What {S} likes to eat best is {V}.
        {V} are all that {S} eats.""",
        """What does {S} [eat|hunt]?
        What does {S} feed on?
        What is the main food of {S}?
        What does {S} live on?
        What is eaten by {S}?""",
        """Can you tell me what {S} likes to eat?
        {S} lives on what?""",
    ),
    "eggs": Sentences(
        """The female {N} lays {V}.
        {S} lays {V}.
        A nest of {S} holds {V}.
        Each spring {S} lays {V}.
        The clutch of {S} is {V}.
        The female {N} lays {V} in April.""",
        """In a nest of {S} one finds {V}.
        {V} are laid by {S} each year.""",
        """How many eggs does {S} lay?
        How many eggs does the female {N} lay?
        How many eggs are in a nest of {S}?
        What is the number of eggs of {S}?
        How many eggs are laid by {S}?""",
        """Can you tell me how many eggs {S} lays?
        What number of eggs does {S} lay?""",
    ),
    "birth year": Sentences(
        """{S} was born in {V}.
        The year of birth of {S} is {V}.
        In {V} {S} was born.
        {S} was born in {V}, [the youngest of four|in a cold winter].
        {S}, born in {V}, [never married|was often ill as a child].
        It was in {V} that {S} was born.""",
        """{S} came into the world in {V}.
        {V} is the year when {S} was born.""",
        """When was {S} born?
        In [which|what] year was {S} born?
        What is the year of birth of {S}?
        Which year was {S} born?
        In what year did the birth of {S} take place?""",
        """{S} was born in which year?
        Can you tell me when {S} was born?""",
    ),
    "birthplace": Sentences(
        """{S} was born in {V}.
        The birthplace of {S} is {V}.
        {S} comes from {V}.
        {S} was a child of {V}.
        {S} grew up in {V}.
        The home town of {S} is {V}.
        {V} is the home town of {S}.""",
        """{S} is a native of {V}.
        {V} is where {S} comes from.""",
        """Where does {S} come from?
        What is the home town of {S}?
        Which town does {S} come from?
        In which town did {S} grow up?
        Where did {S} grow up?
        From which town does {S} come?""",
        """Can you tell me what town {S} comes from?
        {S} is from which town?""",
    ),
    "trade": Sentences(
        """{S} [trained|worked|first worked] as a {V}.
        {S} was a {V} by trade.
        The first trade of {S} was that of a {V}.
        Before all this {S} was a {V}.
        {S} had been a {V} for many years.""",
        """By training, {S} was a {V}.
        {S} earned a living as a {V}.""",
        """What was the trade of {S}?
        What did {S} work as?
        What was {S} by trade?
        What was the first trade of {S}?
        As what did {S} work?""",
        """Can you tell me the trade of {S}?
        As what did {S} earn a living?""",
    ),
    "hobby": Sentences(
        """{S} loved {V}.
        The favourite pastime of {S} was {V}.
        {S} spent every free hour on {V}.
        In the evenings {S} went in for {V}.
        {S} was fond of {V}.
        On Sundays {S} had time for {V}.""",
        """{V} was what {S} enjoyed most.
        Nothing pleased {S} more than {V}.""",
        """What was the favourite pastime of {S}?
        What did {S} love?
        How did {S} spend free hours?
        What was {S} fond of?
        What did {S} like to do?""",
        """Can you tell me the hobby of {S}?
        What did {S} enjoy most?""",
    ),
    "teacher": Sentences(
        """The teacher of {S} was {V}.
        {S} was taught by {V}.
        {S} learned everything from {V}.
        {V} taught {S}.
        {S} was a pupil of {V}.
        {S} studied with {V}.""",
        """{S} went to {V} to learn the trade.
        {V} had {S} as a pupil.""",
        """Who taught {S}?
        Who was the teacher of {S}?
        From whom did {S} learn?
        By whom was {S} taught?
        With whom did {S} study?""",
        """Can you tell me who the teacher of {S} was?
        {S} was whose pupil?""",
    ),
    "river": Sentences(
        """{S} lies on the river {V}.
        The river {V} flows through {S}.
        The river of {S} is the {V}.
        {S} was built on the river {V}.
        {S} is a town on the {V}, a quiet river.
        The river that flows through {S} is called {V}.""",
        """Through {S} runs a river, the {V}.
        The bridges of {S} cross the {V}, a river.""",
        """On which river does {S} lie?
        Which river flows through {S}?
        What is the river of {S} called?
        What is the name of the river of {S}?
        Name the river that flows through {S}.""",
        """Can you tell me the river that runs through {S}?
        {S} lies on which river?""",
    ),
    "market day": Sentences(
        """The market of {S} is held on {V}.
        On {V} there is a market in {S}.
        Market days in {S} are {V}.
        {S} has its market on {V}.
        There is a market in {S} on {V}, [as since the Middle Ages|in front of the church].""",
        """Farmers come to {S} on {V} for the market.
        {V} mean market time in {S}.""",
        """On which day is the market of {S} held?
        When is there a market in {S}?
        What is the market day in {S}?
        On what day does {S} have its market?
        When is the market of {S}?""",
        """Can you tell me the day of the market in {S}?
        The market in {S} is on which day?""",
    ),
    "speciality": Sentences(
        """{S} is known for its {V}.
        The speciality of {S} is {V}.
        Many people visit {S} for its {V}.
        {S} is proud of its {V}.
        In the shops of {S} one finds {V}.""",
        """{V} made {S} famous.
        What people buy in {S} is {V}.""",
        """What is {S} known for?
        What is the speciality of {S}?
        For what do people visit {S}?
        What is {S} proud of?
        For what is {S} known?""",
        """What made {S} famous?
        Can you tell me the speciality of {S}?""",
    ),
    "seat": Sentences(
        """The seat of {S} is {V}.
        {S} has its seat in {V}.
        The offices of {S} are in {V}.
        {S} is based in {V}.
        {S} moved its offices to {V} long ago.""",
        """{V} is where {S} has its offices.
        From {V}, {S} does its business.""",
        """Where is the seat of {S}?
        In which town does {S} have its seat?
        Where are the offices of {S}?
        Where is {S} based?
        In what town is {S} based?""",
        """Can you tell me the seat of {S}?
        {S} has its seat in which town?""",
    ),
    "product": Sentences(
        """{S} makes {V}.
        The main product of {S} is {V}.
        {S} became rich by making {V}.
        {S} sells {V}.
        {S} is a maker of {V}.
        Everybody knows the {V} of {S}.""",
        """In its workshops {S} produces {V}.
        {V} come from the workshops of {S}.""",
        """What does {S} make?
        What is the main product of {S}?
        What does {S} sell?
        What is made by {S}?
        With what did {S} become rich?""",
        """Can you tell me what {S} produces?
        {S} makes what?""",
    ),
}

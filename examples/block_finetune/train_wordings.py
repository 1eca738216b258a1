"""More sentences to train on: statements of many shapes, and questions inside other sentences.

The first run had learned its few sentence patterns by heart: it answered 95% of the questions in
the words of training, and 80% in others. So there are patterns here that vary the place of the
value, appositions, indirect questions ("Do you know who built ...?") and questions in the order
of statements. None is a sentence of the test split (``tests/finetune/test_questions.py``).
"""

from __future__ import annotations

from typing import NamedTuple


class More(NamedTuple):
    """One a line: statements, whole questions, indirect questions, names of what is asked for."""

    said: str
    asked: str
    clauses: str
    phrases: str = ""


CLAUSE_FRAMES = (
    "[Do you know|Could you say|Do the notes say|Would you tell us|Is it written] {q}?",
    "[I wonder|Please say|Let me know|Find out|Remind me|I would like to find out] {q}.",
)
PHRASE_FRAMES = (
    "[Give|State|Look up|I need|Please write down|Tell us] {q}.",
    "[Do you know|What can be read about|Could you name|What about] {q}?",
)

MORE: dict[str, More] = {
    "maker": More(
        """{S} is the work of {title}{V}.
        {S} was {pp} long ago by {title}{V}, [a quiet person|who died poor].
        The name of {V}, who {past} {S}, is not forgotten.
        [Few people know that|It is certain that|One reads that] {S} was {pp} by {V}.
        Behind {S} stands {V}, who {past} it [alone|with two friends|in spite of many doubts].
        {V}, the {agent} of {S}, [never saw it again|spoke little about it|was proud of it].
        Without {V}, who {past} it, there would be no {N}.
        Asked who {past} {S}, everyone names {title}{V}.
        That {S} exists is due to its {agent}, {V}.
        {S} has {title}{V} as its {agent}.
        {S}, the work of {V}, [is shown on old maps|is better known abroad].""",
        """{S} is the work of whom?
        The {agent} of {S} was who?
        {S} was {pp} by [which|what] person?
        Whose work is {S}?
        Who is the {agent} of {S}?""",
        """who {past} {S}
        who the {agent} of {S} was
        by whom {S} was {pp}""",
        """the {agent} of {S}
        the name of the {agent} of {S}""",
    ),
    "year": More(
        """{S}, {pp} in {V}, [is not the oldest of its kind|has never been copied|is still young].
        {V} saw the {event} of {S}.
        {S} has existed since {V}, the year of its {event}.
        {S} was not {pp} [until|before] {V}.
        The year {V} brought the {event} of {S}.
        When {S} was {pp}, the year was {V}.
        One reads that {S} was {pp} as [early|late] as {V}.
        The {event} of {S}, in {V}, [was a great day|drew little attention].
        According to the [records|register|chronicle], {S} was {pp} in {V}.
        {V}: in this year {S} was {pp}.
        The {event} [of {S} belongs to|of {S} happened in] the year {V}.""",
        """{S} was {pp} when?
        The {event} of {S} took place when?
        What year saw the {event} of {S}?
        Since when has {S} existed?""",
        """when {S} was {pp}
        in [which|what] year {S} was {pp}
        what year the {event} of {S} fell in""",
        """the year of the {event} of {S}
        the time of the {event} of {S}""",
    ),
    "date": More(
        """{S}, {pp} on {V}, [is still young|drew a crowd from the first day].
        {V} saw the {event} of {S}.
        It was {V} when {S} was {pp}.
        {S} was not {pp} until {V}.
        The {event} of {S}, on {V}, [was a great day|drew little attention].
        For the {event} of {S} they chose {V}.
        The newspapers of {V} reported the {event} of {S}.
        When {S} was {pp}, the calendar showed {V}.
        [Records|Posters] give {V} as the date of the {event} of {S}.""",
        """{S} was {pp} when?
        The {event} of {S} took place when?
        What day saw the {event} of {S}?
        When did the {event} of {S} take place?""",
        """when {S} was {pp}
        on [which|what] day {S} was {pp}
        when the {event} of {S} took place""",
        """the date of the {event} of {S}
        the day of the {event} of {S}""",
    ),
    "measure": More(
        """{S}, {V} {adj}, [can be seen from afar|is hard to miss|is not the largest].
        The {noun} of {S} [comes to|amounts to|reaches] {V}.
        {S} reaches a {noun} of {V}.
        No less than {V} is what the books give as the {noun} of {S}.
        {V}: that is how {adj} {S} is.
        One finds {V} given as the {noun} of {S}.
        Measured [last year|by experts|twice], the {noun} of {S} was {V}.
        The figure of {V} for the {noun} of {S} is [correct|often quoted].
        {S} is [exactly|all of|just] {V} {adj}.
        Nobody doubts that {S} is {V} {adj}.""",
        """The {noun} of {S} is what?
        {S} is how {adj}?
        How great is the {noun} of {S}?
        What {noun} do the notes give for {S}?
        The {noun} of {S} comes to how many {unit}?""",
        """how {adj} {S} is
        what {noun} {S} has
        how many {unit} {adj} {S} is""",
        """the {noun} of {S}
        the exact {noun} of {S}""",
    ),
    "amount": More(
        """{S}, which has {V} {things}, [is one of many|is not large|is easy to recognise].
        The number of {things} of {S} [stands at|has risen to|fell to] {V}.
        {S} comes with {V} {things}.
        [A visitor|An inspector|A child] counted {V} {things} at {S}.
        All {V} {things} of {S} [were listed last year|appear in an old list].
        {V}: so many {things} does {S} have.
        For {S}, {V} {things} are on record.
        There are {V} {things} that belong to {S}.
        The {things} of {S} are {V} in number.
        No fewer than {V} {things} are part of {S}.
        It is known for its {V} {things}.""",
        """The number of {things} of {S} is what?
        {S} comes with how many {things}?
        There are how many {things} in {S}?
        How great is the number of {things} of {S}?
        How many {things} are on record for {S}?""",
        """how many {things} {S} has
        how many {things} there are in {S}
        how many {things} belong to {S}""",
        """the number of {things} of {S}
        how many {things} {S} has""",
    ),
    "place": More(
        """{S}, [located|situated|to be found] in {V}, [draws few visitors|is easy to reach].
        It is in {V} that {S} {stands}.
        {V} is proud of {S}, which {stands} there.
        Travellers who come to {V} [look for|ask for] {S}.
        To see {S}, take the [road|train] to {V}.
        The people of {V} are fond of {S}, which {stands} in their town.
        Among the sights of {V} is {S}.
        Look for {S} in {V}, [nowhere else|not far from the station].
        {V} has {S}, and [is glad of it|little else].
        The town of {S} is {V}.
        In {V} {stands} {S}.""",
        """{S} is in which town?
        {S} is to be found where?
        What is the town of {S}?
        What town must one visit to see {S}?
        Where does one find {S}?""",
        """where {S} {stands}
        in [which|what] town {S} is
        where one finds {S}""",
        """the town of {S}
        the home of {S}""",
    ),
    "head": More(
        """The {role} of {S}, {V}, [is seldom seen|likes to show visitors around|lives nearby].
        {S} is in the care of its {role}, {V}.
        {V}, {role} of {S}, [lives nearby|started only last year|knows every corner].
        [Since last spring|For ten years now] the {role} of {S} has been {V}.
        {S} chose {V} as its {role}.
        The duties of {role} of {S} fall to {V}.
        Anyone with questions about {S} writes to its {role}, {V}.
        When {S} looked for a {role}, {V} got the post.
        {V} took over as {role} of {S}.
        They made {V} the {role} of {S}.
        The name of the {role} of {S} is {V}.""",
        """The {role} of {S} is who?
        The post of {role} of {S} is held by whom?
        What person is the {role} of {S}?
        Who has the post of {role} of {S} now?
        Who took over as {role} of {S}?""",
        """who the {role} of {S} is
        who works as {role} of {S}
        what the {role} of {S} is called""",
        """the {role} of {S}
        the name of the {role} of {S}""",
    ),
    "owner": More(
        """{S} is in the hands of {V}.
        {V}, the owner of {S}, [pays for all repairs|is seldom mentioned].
        For [years|a long time] {S} has been owned by {V}.
        {S} was sold to {V} [for a large sum|at an auction].
        The papers show {V} as the owner of {S}.
        It is {V} that owns {S}.
        All of {S} is the property of {V}.
        {S}, bought by {V}, [was repaired|changed little].
        As its owner, {V} [earns well with {S}|pays the bills of {S}].
        Among the possessions of {V} is {S}.""",
        """{S} is owned by whom?
        {S} is the property of whom?
        Who has bought {S}?
        The owner of {S} is who?
        Which company owns {S}?""",
        """who owns {S}
        to whom {S} belongs
        who the owner of {S} is""",
        """the owner of {S}
        the company that owns {S}""",
    ),
    "named": More(
        """The {part} of {S}, {V}, [is popular|has its own song|was paid for by a lottery].
        They call the {part} of {S} {V}.
        {V}: this is the name of the {part} of {S}.
        As the name of the {part} of {S}, {V} was chosen.
        The {part} of {S} goes by the name of {V}.
        [Old|Young] people speak of the {part} of {S} as {V}.
        {S} has a {part} named {V}.
        {V} is how the {part} of {S} is called.
        The name {V} was given to the {part} of {S}.""",
        """The name of the {part} of {S} is what?
        The {part} of {S} goes by what name?
        What do they call the {part} of {S}?
        What is the {part} of {S} named?""",
        """what the {part} of {S} is called
        what name the {part} of {S} has
        how people call the {part} of {S}""",
        """the name of the {part} of {S}
        what the {part} of {S} is called""",
    ),
    "closing day": More(
        """{V} find {S} closed.
        {S}, closed on {V}, [is busy on all other days|opens early].
        If it is one of the {V}, {S} is shut.
        Do not come on {V}: {S} is closed.
        The doors of {S} stay locked on {V}.
        The staff of {S} have their day off on {V}.""",
        """{S} is shut on which day?
        On which day is nobody let into {S}?
        When do the doors of {S} stay locked?
        The closing day of {S} is what?""",
        """when {S} is closed
        on [which|what] day {S} is shut""",
        """the closing day of {S}
        the day when {S} is shut""",
    ),
    "price": More(
        """{V} is what a visit to {S} costs.
        Whoever enters {S} pays {V}.
        {S} asks {V} of every visitor.
        The entrance fee of {S} is {V}.
        At the door of {S} one pays {V}.
        {V} will get you into {S}.""",
        """The price of a ticket for {S} is what?
        One pays how much to visit {S}?
        What is the entrance fee of {S}?
        How much does {S} ask of a visitor?""",
        """how much a ticket for {S} costs
        what one pays to see {S}""",
        """the price of a ticket for {S}
        the entrance fee of {S}""",
    ),
    "material": More(
        """{V} makes up all of {S}.
        They chose {V} for {S}, [and never regretted it|since it was cheap].
        {S}, {made} of {V}, [shines in the sun|has stood the weather well].
        Those who {made} {S} took {V}.
        The walls of {S} are of {V}.
        One sees {V} wherever one looks at {S}.""",
        """{S} is {made} of what?
        The material of {S} is what?
        What stuff is {S} {made} of?
        What was taken for {S}?""",
        """what {S} is {made} of
        which material was taken for {S}""",
        """the material of {S}
        the stuff of which {S} is {made}""",
    ),
    "cargo": More(
        """{V} is the main load of {S}.
        {S}, which carries {V}, [makes a small profit|is busy at night].
        Every day {S} brings {V} down to the port.
        The wagons of {S} are full of {V}.
        Without {V} there would be no work for {S}.""",
        """{S} carries what?
        The main load of {S} is what?
        What are the wagons of {S} full of?
        What does {S} bring to the port?""",
        """what {S} carries
        what the main load of {S} is""",
        """the main load of {S}
        the load that {S} carries""",
    ),
    "ore": More(
        """{V} is dug in {S}.
        {S}, which gives {V}, [is almost empty|employs half the village].
        Deep in {S} lies {V}.
        The men bring up {V} from {S}.
        {S} has plenty of {V}.""",
        """{S} gives what?
        The product of {S} is what?
        What do the men bring up from {S}?
        What lies in {S}?""",
        """what is dug in {S}
        what {S} gives""",
        """the product of {S}
        what is dug in {S}""",
    ),
    "milk": More(
        """{V} is the basis of {S}.
        {S}, made from {V}, [is eaten young|is never cheap].
        One takes {V} to make {S}.
        No {N} without {V}, from which it is made.
        The recipe of {S} begins with {V}.""",
        """One makes {S} from what?
        The basis of {S} is what?
        What does the recipe of {S} begin with?
        What is used to make {S}?""",
        """what {S} is made from
        what one needs to make {S}""",
        """the basis of {S}
        what {S} is made from""",
    ),
    "ripening": More(
        """{V} is the time that {S} ripens.
        {S}, ripe after {V}, [is sold in slices|keeps for long].
        It is {V} before {S} may be eaten.
        Dairies leave {S} to ripen for {V}.
        The time of ripening of {S} is {V}.""",
        """{S} ripens for how long?
        The ripening of {S} takes how long?
        What is the time of ripening of {S}?
        How long do dairies leave {S} to ripen?""",
        """how long {S} ripens
        for how many months {S} ripens""",
        """the time of ripening of {S}
        how long {S} needs to ripen""",
    ),
    "rind": More(
        """{V} is used to rub the rind of {S}.
        The rind of {S}, rubbed with {V}, [is not eaten|smells strongly].
        For the rind of {S} dairies use {V}.
        {S} has a rind that is rubbed with {V}.
        With {V} they rub the rind of {S}.""",
        """The rind of {S} is rubbed with what?
        What do dairies use for the rind of {S}?
        What goes on the rind of {S}?
        They rub the rind of {S} with what?""",
        """what the rind of {S} is rubbed with
        what makers rub into the rind of {S}""",
        """what is rubbed into the rind of {S}
        what the rind of {S} is treated with""",
    ),
    "period": More(
        """{V} lie between two visits of {S}.
        {S}, which returns every {V}, [is easy to see|was feared in old times].
        It takes {V} before {S} is seen again.
        The time between two visits of {S} is {V}.
        One waits {V} to see {S} a second time.""",
        """{S} comes back after how many years?
        The period of {S} is what?
        How many years lie between two visits of {S}?
        How many years does {S} take to return?""",
        """how often {S} comes back
        after how many years {S} returns""",
        """the period of {S}
        the time between two visits of {S}""",
    ),
    "colour": More(
        """{V} is the colour of {S}.
        {S}, {V} as it is, [is easy to find|shines brightly].
        Seen at night, {S} is {V}.
        Painters show {S} in {V}.
        One knows {S} by its {V} light.""",
        """{S} is of which colour?
        The colour of {S} is what?
        What colour does {S} have?
        In what colour do painters show {S}?""",
        """what colour {S} is
        which colour {S} has""",
        """the colour of {S}
        what colour {S} has""",
    ),
    "cover": More(
        """{V} is what the cover of {S} looks like.
        {S}, with its {V} cover, [lies in every shop|sells well].
        They gave {S} a {V} cover.
        The printer chose a {V} cover for {S}.
        The cover of {S} was always {V}.""",
        """The cover of {S} is of which colour?
        {S} was given a cover of what colour?
        Of what colour is the cover of {S}?
        What colour did the printer choose for {S}?""",
        """what colour the cover of {S} is
        which colour the cover of {S} has""",
        """the colour of the cover of {S}
        what colour the cover of {S} is""",
    ),
    "food": More(
        """{V} are the main food of {S}.
        {S}, which hunts {V}, [flies without a sound|is seldom heard].
        Where there are {V}, there is {S}.
        One finds {V} in the nest of {S}, as food.
        {S} would starve without {V}.""",
        """{S} hunts what?
        The main food of {S} is what?
        What are the young of {S} fed with?
        {S} eats what?""",
        """what {S} eats
        what {S} lives on""",
        """the main food of {S}
        the food of {S}""",
    ),
    "eggs": More(
        """{V} are in the nest of {S} by May.
        {S}, which lays {V}, [sits on them for weeks|hides its nest well].
        The number is always the same: {S} lays {V}.
        One counts {V} in each nest of {S}.
        {V} make up the clutch of {S}.""",
        """{S} lays how many eggs?
        The clutch of {S} is how many eggs?
        How large is the clutch of {S}?
        How many eggs does one count in a nest of {S}?""",
        """how many eggs {S} lays
        how many eggs are in a nest of {S}""",
        """the number of eggs that {S} lays
        the size of the clutch of {S}""",
    ),
    "birth year": More(
        """{V} saw the birth of {S}.
        {S}, a child of the year {V}, [was often ill|had five brothers].
        When {S} was born, the year was {V}.
        The birth of {S} fell in the year {V}.
        The register says that {S} was born in {V}.
        {S} was [the first|the last] child, born in {V}.""",
        """{S} was born when?
        The birth of {S} was in what year?
        What is the birth year of {S}?
        When did the birth of {S} take place?""",
        """when {S} was born
        in [which|what] year {S} was born""",
        """the year of birth of {S}
        the birth year of {S}""",
    ),
    "birthplace": More(
        """{V} was the first home of {S}.
        {S}, born in {V}, [left early|often came back].
        The family of {S} lived in {V}, where {S} was born.
        {V} is proud of {S}, who was born there.
        As a child, {S} lived in {V}.
        {S} always spoke of {V} as home.""",
        """{S} was born where?
        {S} grew up in which town?
        The home town of {S} is what?
        Where was {S} born?
        What is the birthplace of {S}?""",
        """where {S} comes from
        in [which|what] town {S} grew up
        where {S} was born""",
        """the home town of {S}
        the birthplace of {S}""",
    ),
    "trade": More(
        """{S}, a {V}, [worked until late at night|had many customers].
        The work of a {V} was what {S} had learned.
        {S} learned to be a {V}.
        People knew {S} as a {V}.
        {S} made money as a {V}.
        A {V}, {S} [was never rich|liked to travel].""",
        """{S} worked as what?
        The trade of {S} was what?
        What kind of work did {S} do?
        What had {S} learned to be?""",
        """what the trade of {S} was
        what {S} worked as""",
        """the trade of {S}
        the work of {S}""",
    ),
    "hobby": More(
        """{V} filled the free hours of {S}.
        {S}, fond of {V}, [had little time for it|met many friends that way].
        When work was done, {S} turned to {V}.
        The great love of {S} was {V}.
        Friends of {S} remember an endless love of {V}.
        {S} liked {V} best.""",
        """{S} was fond of what?
        The favourite pastime of {S} was what?
        What filled the free hours of {S}?
        What was the hobby of {S}?
        What did {S} like best?""",
        """what {S} liked to do
        what {S} was fond of
        what the favourite pastime of {S} was""",
        """the favourite pastime of {S}
        the great love of {S}""",
    ),
    "teacher": More(
        """{V} was the teacher of {S}.
        {S}, taught by {V}, [soon knew more than that|learned fast].
        As a teacher {S} had {V}.
        The lessons of {V} made {S} what we know.
        Everything that {S} knew came from {V}, the teacher.
        {V} gave {S} the first lessons.""",
        """{S} learned from whom?
        The teacher of {S} was who?
        Who gave {S} the first lessons?
        Whose pupil was {S}?
        {S} was taught by whom?""",
        """who taught {S}
        who was the teacher of {S}
        from whom {S} learned""",
        """the teacher of {S}
        the name of the teacher of {S}""",
    ),
    "river": More(
        """The {V} is the river of {S}.
        {S}, on the river {V}, [has three mills|is often under water].
        The water of the river {V} drives the mills of {S}.
        At {S} one can swim in the river {V}.
        The river on which {S} lies is named {V}.""",
        """{S} was built on which river?
        The river of {S} is called what?
        What river flows through {S}?
        What river does {S} lie on?""",
        """on [which|what] river {S} lies
        what the river of {S} is called""",
        """the river of {S}
        the name of the river at {S}""",
    ),
    "market day": More(
        """{V} are the days of the market of {S}.
        {S}, with its market on {V}, [is full of carts then|is loud then].
        Whoever wants to buy in {S} comes on {V}, when there is a market.
        {V} bring the market to {S}.
        They hold the market of {S} on {V}.""",
        """{S} has its market on which day?
        The market of {S} is held when?
        What day brings the market to {S}?
        On which day do they hold the market of {S}?""",
        """when there is a market in {S}
        on [which|what] day the market of {S} is held""",
        """the market day of {S}
        the day of the market of {S}""",
    ),
    "speciality": More(
        """{V} is the speciality of {S}.
        {S}, known for its {V}, [sells it everywhere|is proud of it].
        One does not leave {S} without its {V}.
        Whoever says {S} thinks of {V}.
        The pride of {S} is its {V}.""",
        """{S} is known for what?
        The speciality of {S} is what?
        What is the pride of {S}?
        What does one bring home from {S}?""",
        """what {S} is known for
        what the speciality of {S} is""",
        """the speciality of {S}
        the pride of {S}""",
    ),
    "seat": More(
        """{V} is the seat of {S}.
        {S}, based in {V}, [pays its taxes there|has a second office abroad].
        Letters to {S} go to {V}, where its offices are.
        The head office of {S} is in {V}.
        {S} is at home in {V}.
        They run {S} from {V}.""",
        """{S} is based where?
        The seat of {S} is what?
        Where is the head office of {S}?
        What town is the seat of {S}?""",
        """where {S} is based
        in [which|what] town {S} has its seat
        where the offices of {S} are""",
        """the seat of {S}
        the town where {S} is based""",
    ),
    "product": More(
        """{V} are the main product of {S}.
        {S}, a maker of {V}, [ships them everywhere|is growing].
        Whoever needs {V} buys from {S}.
        The factory of {S} turns out {V}.
        {S} lives by the sale of {V}.""",
        """{S} sells what?
        The main product of {S} is what?
        What does the factory of {S} turn out?
        What can one buy from {S}?""",
        """what {S} makes
        what the main product of {S} is""",
        """the main product of {S}
        what {S} makes""",
    ),
}

MORE_PHRASES: dict[str, tuple[str, ...]] = {
    "maker": ("the {agent} behind {S}", "the person by whom {S} was {pp}"),
    "place": ("the town of {S}", "the town that one visits to see {S}", "the town that has {S}"),
    "head": ("the one who works as {role} of {S}", "the current {role} of {S}"),
    "owner": ("the company in whose hands {S} is", "the business that owns {S}"),
}
"""Of values, for two-hop questions."""

MORE_FILLERS = (
    "{person} lost a hat there in {year}.",
    "In {year} {person} gave a talk about it in {town}.",
    "A letter of {year} mentions it twice.",
    "It rained for {n} days in {year}.",
    "{person} of {town} collects pictures of it.",
    "More than {n} songs have been written about it.",
    "{n} dogs were seen nearby.",
    "A bus leaves from {town} every {n} hours.",
    "The mayor of another town, {person}, was envious.",
    "{person} asked many questions about it.",
    "In {town} nobody speaks of it.",
    "The winter of {year} was hard.",
    "{person} and {n} friends came on foot.",
    "A plaque was unveiled in {year} by {person}.",
    "There was talk of selling it in {year}.",
    "A book about it has {n} chapters.",
    "One can buy postcards, {n} to a set.",
    "Bread is sold in the yard.",
    "The poet {person} never liked it.",
    "Plans of {year} were never carried out.",
    "The phone has been out of order since {year}.",
    "{person} is said to have slept here.",
    "It takes {n} minutes to walk around.",
    "Visitors from {town} pay nothing.",
    "Much has been written about the weather here.",
    "It was painted by {person} in {year}.",
    "The last flood was in {year}.",
)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def statements(name: str) -> list[str]:
    return _lines(MORE[name].said)


def questions(name: str) -> list[str]:
    """The whole questions, and the indirect ones in their frames."""
    more = MORE[name]
    made = _lines(more.asked)
    for frames, parts in ((CLAUSE_FRAMES, more.clauses), (PHRASE_FRAMES, more.phrases)):
        made += [frame.format(q="\0").replace("\0", p) for p in _lines(parts) for frame in frames]
    return made

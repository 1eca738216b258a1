"""Requests that a client might send: well-formed ones, and such with something wrong in them.

A strategy gives requests of one surface as `(path, body)`. Bodies are small, so that a
server answers hundreds in a minute: whatever they say, a prompt has few tokens and an
answer at most two.
"""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from .traffic import SEPARATOR

Body = dict[str, Any]

WORDS = st.sampled_from(
    ("Belka sold the violin.", " Who?", "\n\n", "a", " ", "<|im_start|>", "<|im_end|>\n",
     SEPARATOR, SEPARATOR * 2, "{{ messages }}", "{% if %}", "é\u0301", "\U0001f47b", "\x00",
     "document-0", '","', "\\u0000", "lantern " * 40)
)  # fmt: skip
TEXT = st.one_of(WORDS, WORDS, st.text(min_size=1, max_size=12), st.text(max_size=4))
NUMBER = st.one_of(
    st.integers(-2, 9), st.sampled_from((255, 256, 257, 49151, 49152, 2**31, 2**63, -(2**63) - 1)),
    st.integers(), st.floats(),
)  # fmt: skip
ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), NUMBER, TEXT, st.sampled_from(("\ud800", "\udfff a", "9" * 5000))
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(("text", "document", "type", "title", "source", "content", "x", "")),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=5,
)
"""What no field expects, NaN, infinity, lone surrogates and very long numbers included."""

CONTEXT = st.sampled_from(("none", "sink", "preamble"))
LINKS = st.sampled_from((0, 1, 2, 7, 256))


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries({}, optional=fields)


OPTIONS = optional(chunk_context=CONTEXT, chunk_link_tokens=LINKS)
SEGMENT = st.one_of(
    st.builds(lambda t: {"text": t}, TEXT), st.builds(lambda t: {"document": t}, TEXT)
)
SEGMENTS = st.builds(lambda s, t: [*s, {"text": t}], st.lists(SEGMENT, max_size=5), TEXT)


@st.composite
def token_spans(draw: st.DrawFn) -> Body:
    """`input_ids` with `document_spans`, most of them right."""
    cuts = sorted(draw(st.lists(st.integers(0, 30), max_size=6)))
    spans = [[start, end] for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    ids = draw(st.lists(st.integers(0, 49151), min_size=31, max_size=34))
    return {"input_ids": ids, "document_spans": spans}


@st.composite
def generate(draw: st.DrawFn) -> tuple[str, Body]:
    prompt: Body = draw(
        st.one_of(
            st.builds(lambda s: {"segments": s}, SEGMENTS),
            st.builds(lambda s: {"segments": s}, st.lists(st.one_of(SEGMENTS, TEXT), max_size=3)),
            token_spans(),
            st.builds(lambda t: {"text": t}, TEXT),
            st.builds(lambda a, b: {k: [a[k], b[k]] for k in a}, token_spans(), token_spans()),
        )
    )
    more = draw(
        optional(
            logprob_start_len=st.integers(-1, 40),
            return_logprob=st.booleans(),
            top_logprobs_num=st.integers(0, 3),
            extra_key=st.sampled_from(("a", "b")),
            priority=st.integers(-3, 3),
            return_hidden_states=st.booleans(),
            session_params=st.just({"id": "s"}),
            token_ids_logprob=st.lists(st.integers(-1, 60_000), max_size=3),
        )
    )
    params = draw(optional(n=st.integers(1, 2), custom_params=ANYTHING, stop=TEXT))
    params |= {"max_new_tokens": draw(st.integers(0, 2)), "temperature": 0}
    return "/generate", {**prompt, **draw(OPTIONS), **more, "sampling_params": params}


PART = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, TEXT),
    st.builds(lambda t: {"type": "document", "text": t}, TEXT),
    st.builds(lambda t, title: {"type": "document", "text": t, "title": title}, TEXT, TEXT),
)
CONTENT = st.one_of(TEXT, st.lists(PART, max_size=4))
LISTED = st.lists(
    st.one_of(TEXT, optional(text=TEXT, title=TEXT, doc_id=st.one_of(TEXT, NUMBER))), max_size=3
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@st.composite
def chat(draw: st.DrawFn) -> tuple[str, Body]:
    roles = draw(
        st.lists(st.sampled_from(("system", "user", "user", "assistant", "tool")), max_size=3)
    )
    messages: list[Any] = [{"role": role, "content": draw(CONTENT)} for role in roles]
    messages.append({"role": "user", "content": draw(CONTENT)})
    more = draw(
        optional(
            documents=LISTED,
            tools=st.just([TOOL]),
            continue_final_message=st.booleans(),
            chat_template_kwargs=optional(documents=ANYTHING, x=ANYTHING),
            n=st.integers(1, 2),
            logprobs=st.booleans(),
        )
    )
    body = {"model": "m", "messages": messages, "max_tokens": draw(st.integers(1, 2))}
    return "/v1/chat/completions", {**body, **more, **draw(OPTIONS)}


@st.composite
def completion(draw: st.DrawFn) -> tuple[str, Body]:
    batch = st.lists(st.one_of(SEGMENTS, TEXT), min_size=1, max_size=2)
    prompt: Body = draw(
        st.one_of(
            st.builds(lambda s: {"prompt": "", "segments": s}, SEGMENTS),
            st.builds(lambda s: {"prompt": None, "segments": s}, batch),
            st.builds(lambda t: {"prompt": t}, TEXT),
        )
    )
    more = draw(optional(echo=st.booleans(), suffix=TEXT, logprobs=st.integers(0, 2)))
    body = {"model": "m", "max_tokens": draw(st.integers(1, 2))}
    return "/v1/completions", {**body, **prompt, **more, **draw(OPTIONS)}


SOURCE = st.one_of(
    st.builds(lambda t: {"type": "text", "media_type": "text/plain", "data": t}, TEXT),
    st.builds(lambda t: {"type": "content", "content": [{"type": "text", "text": t}]}, TEXT),
    st.just({"type": "base64", "media_type": "application/pdf", "data": "AAAA"}),
)
BLOCK = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, TEXT),
    st.builds(
        lambda source, more: {"type": "document", "source": source, **more},
        SOURCE,
        optional(title=TEXT, context=TEXT, citations=optional(enabled=st.booleans())),
    ),
    st.builds(
        lambda t, title: {
            "type": "search_result",
            "source": "s",
            "title": title,
            "content": [{"type": "text", "text": t}],
        },
        TEXT,
        TEXT,
    ),
)
RESULT = st.builds(
    lambda inner: {"type": "tool_result", "tool_use_id": "a", "content": inner},
    st.lists(BLOCK, max_size=2),
)


@st.composite
def anthropic(draw: st.DrawFn) -> tuple[str, Body]:
    blocks = st.lists(st.one_of(BLOCK, BLOCK, RESULT), max_size=3)
    body: Body = {"model": "m", "messages": [{"role": "user", "content": draw(blocks)}]}
    body |= draw(optional(system=st.one_of(TEXT, st.lists(BLOCK, max_size=2))))
    if draw(st.booleans()):
        return "/v1/messages/count_tokens", body
    return "/v1/messages", {**body, "max_tokens": draw(st.integers(1, 2)), **draw(OPTIONS)}


@st.composite
def responses(draw: st.DrawFn) -> tuple[str, Body]:
    part = st.one_of(PART, st.builds(lambda t: {"type": "input_text", "text": t}, TEXT))
    item = st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(("user", "user", "assistant", "developer")),
        st.one_of(TEXT, st.lists(part, max_size=3)),
    )
    body: Body = {"model": "m", "input": draw(st.one_of(TEXT, st.lists(item, max_size=3)))}
    body |= draw(optional(documents=LISTED, instructions=TEXT))
    return "/v1/responses", {**body, "max_output_tokens": draw(st.integers(2, 4)), **draw(OPTIONS)}


SURFACES = {
    "generate": generate(),
    "chat": chat(),
    "completions": completion(),
    "anthropic": anthropic(),
    "responses": responses(),
}

OURS = (
    "segments", "document_spans", "chunk_context", "chunk_link_tokens", "documents", "messages",
    "input", "system",
)  # fmt: skip
"""Fields in which something is put that does not belong there."""


@st.composite
def spoilt(draw: st.DrawFn, requests: st.SearchStrategy[tuple[str, Body]]) -> tuple[str, Body]:
    """A request in which one value, at any depth of our fields, is another; or none."""
    path, body = draw(requests)
    if draw(st.integers(0, 2)) == 0:
        return path, body
    body = copy.deepcopy(body)  # strategies may give one object several times
    places = [place for name in OURS if name in body for place in places_in(body, name)]
    if draw(st.integers(0, 5)) == 0 or not places:
        return path, {**body, draw(st.sampled_from(OURS)): draw(ANYTHING)}
    holder, key = draw(st.sampled_from(places))
    holder[key] = draw(ANYTHING)
    return path, body


def places_in(holder: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    """Where values stand: `holder[key]`, and whatever is in it."""
    yield holder, key
    value = holder[key]
    if isinstance(value, (dict, list)):
        for inner in value if isinstance(value, dict) else range(len(value)):
            yield from places_in(value, inner)

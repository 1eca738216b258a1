"""The row's order and its spans, on small cases worked out by hand."""

from __future__ import annotations

import pytest

from sglang_lazy.cache.layout import Piece, PromptLayout, Span

# S S S | A A A A | B B B | Q Q    of which S S and A A A A are cached
LAYOUT = PromptLayout((3, 4, 3, 2), (False, True, True, False), (2, 4, 0, 0), 1, True)


def test_cached_tokens_stand_first() -> None:
    assert LAYOUT.permutation.tolist() == [0, 1, 3, 4, 5, 6, 2, 7, 8, 9, 10, 11]
    assert LAYOUT.pieces == (
        Piece(0, 0, 0, 2),
        Piece(1, 0, 2, 4),
        Piece(0, 2, 6, 1),
        Piece(2, 0, 7, 3),
        Piece(3, 0, 10, 2),
    )
    assert LAYOUT.num_cached == 6


def test_documents_are_computed_at_local_positions() -> None:
    # Behind one context token each.
    assert LAYOUT.positions(0, LAYOUT.num_tokens).tolist() == [0, 1, 1, 2, 3, 4, 2, 1, 2, 3, 10, 11]
    assert [LAYOUT.position_offset(i) for i in range(4)] == [0, 2, 6, 0]


def test_document_sees_its_context_only() -> None:
    assert list(LAYOUT.spans_before(LAYOUT.pieces[3])) == [Span(0, 1, 0)]


def test_text_sees_everything_before() -> None:
    assert list(LAYOUT.spans_before(LAYOUT.pieces[4])) == [
        Span(0, 2, 0),
        Span(2, 4, 2),
        Span(6, 1, 0),
        Span(7, 3, 6),
    ]


def test_neighbours_with_one_offset_are_one_span() -> None:
    layout = PromptLayout((3, 2, 4), (False, True, False), (3, 0, 0), 3, True)
    # The preamble and the first document behind it have the same offset, 0.
    assert list(layout.spans_before(layout.pieces[-1])) == [Span(0, 5, 0)]


@pytest.mark.parametrize(
    ("is_document", "has_own_context", "context_length", "sees"),
    [
        ((True, False), False, 1, True),
        ((False, True, False), False, 1, False),
        ((False, True, False), True, 1, False),
        ((True, False), False, 0, False),
    ],
)
def test_text_sees_the_sink_only_behind_a_leading_document(
    is_document: tuple[bool, ...], has_own_context: bool, context_length: int, sees: bool
) -> None:
    n = len(is_document)
    layout = PromptLayout((2,) * n, is_document, (0,) * n, context_length, has_own_context)
    assert layout.text_sees_sink is sees


# S S S H H | T T T | Q Q    a document of five tokens, two of which are text; none cached
LINKED = PromptLayout((5, 3, 2), (False, True, False), (0, 0, 0), 1, True, (0, 2, 0))


def test_tail_is_computed_where_it_stands_in_its_document() -> None:
    # Behind one context token and two of its head.
    assert LINKED.positions(0, 10).tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 8, 9]
    assert LINKED.position_offset(1) == 2


def test_tail_does_not_see_the_head_that_is_text() -> None:
    assert LINKED.spans_before(LINKED.pieces[1]) == [Span(0, 1, 0)]
    assert LINKED.spans_before(LINKED.pieces[2]) == [Span(0, 5, 0), Span(5, 3, 2)]


def test_segments_that_a_chunk_computes() -> None:
    assert LINKED.computed_segments(0, 5) == [0]
    assert LINKED.computed_segments(4, 6) == [0, 1]
    assert LINKED.computed_segments(8, 12) == [2]

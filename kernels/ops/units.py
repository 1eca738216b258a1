"""Work units: what the planner writes (``tiles.py``) and the kernel reads (``attend.py``).

A *work unit* is a tile of query rows and a range of keys, for every KV head. There are two
flavours:

- *Item units*: rows of any requests that attend to the same span, each with its own Δ.
- *Segment units*: consecutive rows of one query segment, which walk a list of spans. The
  tile is rotated once per span, always from the original; the segment's own span, the
  last of its list, is causal.

A unit that holds all keys of its rows writes ``out``; others write partial results, for
``merge_state.py`` to combine.
"""

UNIT_FIELDS = (
    "row_begin",  # first row: of q in a segment unit, of item_rows in an item unit
    "num_rows",  # tokens
    "span_begin",
    "last_span",
    "key_begin",  # first key within the first span
    "key_end",  # end of the keys within the last span
    "first_limit",  # keys of the last span that the first row sees; each later row one more
    "partial_begin",  # the first row's place among the partial results; -1: write out
    "num_tiles",  # tiles of keys; none holds keys of two spans
)
"""Fields of a unit, int32 each, in this order."""

NO_LIMIT = 1 << 30
"""``first_limit`` where every row sees all keys."""

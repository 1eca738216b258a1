"""Documents among the parts of messages."""

import pytest

from sglang_lazy.surfaces.documents import Document, ListedDocument
from sglang_lazy.surfaces.messages import Message, place, with_placeholders

A, B = Document("a", "documents[0]"), Document("b", "documents[1]")
OTHER = object()


def put(document: Document) -> str:
    return f"<{document.text}>"


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        (["x", A, B, "y"], ["x<a><b>y"]),
        (["v", "x", A, "y", "z"], ["v", "x<a>y", "z"]),
        ([A, "x", B], ["<a>x<b>"]),
        ([OTHER, A, OTHER, B, "x"], [OTHER, "<a>", OTHER, "<b>x"]),
        (["x", "y", OTHER], ["x", "y", OTHER]),
        ([], []),
    ],
)
def test_documents_are_glued_to_the_text_beside_them(parts: list, written: list) -> None:
    assert with_placeholders(parts, put) == written


def test_placed_before_the_first_user_message() -> None:
    documents = [ListedDocument(A, {}), ListedDocument(B, {})]
    system, again = Message("system", ("s",)), Message("user", ("z",))
    for parts, rest in ((("x", "y"), ("\n\nx", "y")), ((B,), ("\n\n", B)), ((), ("\n\n",))):
        placed = place([system, Message("user", parts), again], documents)
        assert placed == [system, Message("user", (A, B, *rest)), again]


def test_nowhere_to_place() -> None:
    with pytest.raises(ValueError, match="needs a user message"):
        place([Message("system", ("s",))], [ListedDocument(A, {})])

"""A LangChain chain: a retriever over a folder of notes, and `ChatOpenAI`.

`ChatOpenAI` sends the dicts of a message's content as they are, but for the few types that
it rewrites (images, files, ...), so the retrieved notes are content parts of type
`document`. The usual prompt template would format them into one string, in which the
server could not tell a note from the text around it: build the message in a function.

Needs `langchain-openai` and `bm25s`. Any other retriever will do as well.
"""

from operator import itemgetter
from typing import Any

import bm25s
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI
from questions import MAX_TOKENS, NUM_NOTES, QUESTIONS, SYSTEM, base_url, read_notes, report


def tokenize(texts: str | list[str]) -> Any:
    return bm25s.tokenize(texts, stopwords="en", show_progress=False)


class NotesRetriever(BaseRetriever):
    """Ranks notes by BM25. Works offline."""

    notes: list[Document]
    index: bm25s.BM25

    @classmethod
    def from_folder(cls) -> "NotesRetriever":
        notes = [
            Document(note.text, metadata={"name": note.name, "title": note.title})
            for note in read_notes()
        ]
        index = bm25s.BM25()
        index.index(tokenize([note.page_content for note in notes]), show_progress=False)
        return cls(notes=notes, index=index)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.index.retrieve(
            tokenize(query), corpus=self.notes, k=NUM_NOTES, show_progress=False
        )
        return list(found.documents[0])


def messages(inputs: dict[str, Any]) -> list[BaseMessage]:
    parts = [
        {"type": "document", "title": note.metadata["title"], "text": note.page_content}
        for note in inputs["notes"]
    ]
    question = {"type": "text", "text": inputs["question"]}
    return [SystemMessage(SYSTEM), HumanMessage([*parts, question])]


def main() -> None:
    model = ChatOpenAI(
        base_url=f"{base_url(__doc__)}/v1",
        api_key="none",
        model="default",
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    chain = RunnablePassthrough.assign(
        notes=itemgetter("question") | NotesRetriever.from_folder()
    ) | RunnablePassthrough.assign(answer=RunnableLambda(messages) | model)
    for question in QUESTIONS:
        result = chain.invoke({"question": question})
        answer = result["answer"]
        usage = answer.usage_metadata
        cached = usage.get("input_token_details", {}).get("cache_read", 0)
        names = [note.metadata["name"] for note in result["notes"]]
        report(question, answer.text, names, usage["input_tokens"], cached)


if __name__ == "__main__":
    main()

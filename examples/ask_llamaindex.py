"""A LlamaIndex query engine: a BM25 retriever over a folder of notes, and `OpenAILike`.

LlamaIndex turns messages into content parts from a fixed list of block types, and sends its
`DocumentBlock` as a base64 file. So the retrieved notes go into the request's top-level
`documents`, by `extra_body`, which every call of `chat` hands to the `openai` client. The
usual response synthesizer would format them into one string, in which the server could not
tell a note from the text around it: a `CustomQueryEngine` takes its place.

Needs `llama-index-llms-openai-like` and `llama-index-retrievers-bm25`. Any other retriever
will do as well.
"""

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import TextNode
from llama_index.llms.openai_like import OpenAILike
from llama_index.retrievers.bm25 import BM25Retriever
from questions import MAX_TOKENS, NUM_NOTES, QUESTIONS, SYSTEM, base_url, read_notes, report


class NotesQueryEngine(CustomQueryEngine):
    """Asks a model with retrieved nodes as documents."""

    retriever: BaseRetriever
    llm: OpenAILike

    def custom_query(self, query_str: str) -> Response:
        found = self.retriever.retrieve(query_str)
        # Not get_content(): it can put metadata, such as a score, before the text.
        documents = [
            {"title": each.node.metadata["title"], "text": each.node.text} for each in found
        ]
        answer = self.llm.chat(
            [ChatMessage(role="system", content=SYSTEM), ChatMessage(content=query_str)],
            extra_body={"documents": documents},
        )
        return Response(
            answer.message.content, source_nodes=found, metadata={"usage": answer.raw.usage}
        )


def main() -> None:
    llm = OpenAILike(
        api_base=f"{base_url(__doc__)}/v1",
        api_key="none",
        model="default",
        is_chat_model=True,
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    nodes = [
        TextNode(text=note.text, metadata={"name": note.name, "title": note.title})
        for note in read_notes()
    ]
    retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=NUM_NOTES)
    engine = NotesQueryEngine(retriever=retriever, llm=llm)
    for question in QUESTIONS:
        response = engine.query(question)
        usage = response.metadata["usage"]
        details = usage.prompt_tokens_details
        cached = details.cached_tokens if details else 0
        names = [each.node.metadata["name"] for each in response.source_nodes]
        report(question, str(response), names, usage.prompt_tokens, cached)


if __name__ == "__main__":
    main()

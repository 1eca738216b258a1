"""Sending documents to a server so that it encodes them, a few requests at a time.

Each request is a prompt of several documents and one more token: documents do not see
each other, so what is stored for each is what any later prompt asks for, and the token
is the only KV that is stored besides. What is cached already is found, and costs next
to nothing, so a run that was interrupted is resumed by running it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

from sglang_lazy.http_client import Client, RequestError
from sglang_lazy.warm.corpus import Document

BATCH_DOCUMENTS, BATCH_CHARACTERS = 16, 16_000
"""Of one request: some thousand tokens, which no later request has to wait long for."""

TOKENS_PER_CHARACTER = 0.3
"""Until the server has counted some."""

LAST_TEXT = "\n"
"""A prompt cannot end in a document."""

REFUSALS_OF_ALL = (401, 403, 404)
"""Statuses that no other document would change."""


@dataclass
class Report:
    """What was done, by a request or a run.

    Attributes:
        documents: documents that are in the cache now.
        cached_documents: those of them that had been there before.
        computed_tokens: tokens of documents that were computed.
        cached_tokens: tokens of documents that had been cached.
        duplicates: documents that the corpus has more than once.
        left_out: documents that were not sent, since the cache could not hold them.
        failures: the names of documents that could not be encoded, and why.
        size: bytes read.
    """

    documents: int = 0
    cached_documents: int = 0
    computed_tokens: int = 0
    cached_tokens: int = 0
    duplicates: int = 0
    left_out: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    size: int = 0

    @property
    def tokens(self) -> int:
        return self.computed_tokens + self.cached_tokens

    def add(self, other: Report) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(frozen=True)
class Prompt:
    """What stands around the documents.

    Attributes:
        preamble: text before the first one, seen by documents in mode ``preamble``.
        chunk_context: mode; None for the server's.
        extra_key: the tenant's, or None; so are the next two.
    """

    preamble: str = ""
    chunk_context: str | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    lora_path: str | None = None

    def request(self, texts: Iterable[str], rank: int | None) -> dict[str, Any]:
        """A request that has the documents encoded.

        Args:
            rank: the data-parallel rank to send it to, or None.
        """
        documents = [{"document": text} for text in texts]
        # Without documents, for the text's tokens to be counted, special ones included.
        before = [{"text": self.preamble}] if self.preamble or not documents else []
        return {
            "segments": [*before, *documents, {"text": LAST_TEXT}],
            # One token: with none, the server reports nothing of the documents.
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "chunk_context": self.chunk_context,
            # Whole documents serve prompts with any number of link tokens.
            "chunk_link_tokens": 0,
            "extra_key": self.extra_key,
            "cache_salt": self.cache_salt,
            "lora_path": self.lora_path,
            "routed_dp_rank": rank,
        }


class Warmer:
    """One run.

    Args:
        client: the server.
        prompt: what stands around the documents.
        concurrency: requests in flight.
        fill: the share of the cache that the corpus may take.
        on_progress: called with the report whenever it has changed.

    Attributes:
        capacity: tokens of documents that may be sent.

    Raises:
        RequestError: the server takes no documents, or not from us.
        ServerUnreachable: it does not answer.
        ValueError: the server's mode is ``preamble``, and there is none.
    """

    def __init__(
        self,
        client: Client,
        prompt: Prompt,
        concurrency: int = 4,
        fill: float = 0.9,
        on_progress: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self.report = Report()
        self._client = client
        self._prompt = prompt
        self._concurrency = concurrency
        self._on_progress = on_progress
        info = client.get("/server_info").json()
        dp_size = info.get("dp_size") or 1
        # Every data-parallel scheduler has a cache of its own, and may get any prompt.
        self._ranks: list[int | None] = list(range(dp_size)) if dp_size > 1 else [None]
        self._text_tokens = self._ask((), self._ranks[0])["prompt_tokens"]
        self.capacity = int(info["max_total_num_tokens"] * fill) - self._text_tokens
        if prompt.chunk_context is None and self._server_context() == "preamble":
            raise ValueError("the server runs with --chunk-context preamble: give the preamble too")
        self._characters = 0  # of what `report` counts

    def run(self, documents: Iterable[Document]) -> Report:
        """Encode the documents, until the cache is full; see :class:`Report`."""
        batches = self._batches(documents)
        batch = next(batches, None)
        pending: dict[Future[Report], int] = {}
        with ThreadPoolExecutor(self._concurrency) as pool:
            try:
                while batch or pending:
                    if batch and len(pending) < self._concurrency:
                        characters = sum(len(text) for _, text in batch)
                        if self._fits(characters + sum(pending.values())):
                            pending[pool.submit(self._encode, batch)] = characters
                            batch = next(batches, None)
                            continue
                        if not pending:
                            break
                    for future in wait(pending, return_when=FIRST_COMPLETED).done:
                        self._characters += pending.pop(future)
                        self._add(future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        while batch:
            self._add(Report(left_out=len(batch)))
            batch = next(batches, None)
        return self.report

    def _server_context(self) -> str | None:
        """The server's mode; None where it does not tell us."""
        try:
            context: str = self._client.get("/chunk_cache", documents=0).json()["chunk_context"]
        except RequestError as error:
            if error.status == 401:  # for administrators only
                return None
            raise
        return context

    def _batches(self, documents: Iterable[Document]) -> Iterator[list[tuple[Document, str]]]:
        """Usable documents with their texts, each once, some to a request."""
        batch: list[tuple[Document, str]] = []
        characters = 0
        seen: set[bytes] = set()
        for document in documents:
            if document.text is None:
                self._add(Report(failures=[(document.name, document.fault)], size=document.size))
                continue
            digest = blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=16)
            if digest.digest() in seen:
                self._add(Report(duplicates=1, size=document.size))
                continue
            seen.add(digest.digest())
            length = len(document.text)
            if batch and (len(batch) == BATCH_DOCUMENTS or characters + length > BATCH_CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append((document, document.text))
            characters += length
        if batch:
            yield batch

    def _fits(self, characters: int) -> bool:
        """Whether so many characters, more than the report counts, go into the cache."""
        per_character = TOKENS_PER_CHARACTER
        if self._characters:
            per_character = self.report.tokens / len(self._ranks) / self._characters
        used = self.report.tokens / len(self._ranks)
        return used + characters * per_character <= self.capacity

    def _encode(self, batch: list[tuple[Document, str]]) -> Report:
        report = Report(size=sum(document.size for document, _ in batch))
        try:
            for rank in self._ranks:
                meta = self._ask([text for _, text in batch], rank)
                found = meta["chunk_cache"]
                report.cached_tokens += found["cached_tokens"]
                report.computed_tokens += (
                    meta["prompt_tokens"] - self._text_tokens - found["cached_tokens"]
                )
                report.cached_documents += found["hits"]
        except RequestError as error:
            if error.status in REFUSALS_OF_ALL:
                raise
            if len(batch) == 1:
                document, _ = batch[0]
                return Report(failures=[(document.name, str(error))], size=document.size)
            report = Report()  # one of them is at fault, or they are too long together
            for each in batch:
                report.add(self._encode([each]))
            return report
        report.documents = len(batch)
        report.cached_documents //= len(self._ranks)
        return report

    def _ask(self, texts: Iterable[str], rank: int | None) -> dict[str, Any]:
        meta_info: dict[str, Any] = self._client.post(
            "/generate", self._prompt.request(texts, rank)
        )["meta_info"]
        return meta_info

    def _add(self, report: Report) -> None:
        self.report.add(report)
        self._on_progress(self.report)

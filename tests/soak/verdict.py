"""What may be wrong with an answer, and what is counted of those that are right."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """What is wrong, with the answer to a step or (None) with the server."""

    kind: str
    step_id: int | None
    message: str

    def __str__(self) -> str:
        of = "" if self.step_id is None else f" of step {self.step_id}"
        return f"{self.kind}{of}: {self.message}"


class Wrong(Exception):
    """Something of an answer is not as it must be."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def require(condition: bool, kind: str, message: str) -> None:
    if not condition:
        raise Wrong(kind, message)


@dataclass
class Tally:
    """Figures of a run."""

    requests: int = 0
    checked: int = 0
    by_surface: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    left: int = 0
    aborted: int = 0
    retractions: int = 0
    documents: int = 0
    hits: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    lost_logprobs: int = 0
    largest_error: float = 0.0

"""Options that a request may give beside its documents, on every surface alike."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class RequestOptions(BaseModel):
    """Fields that each surface's request has besides its own.

    A further option is one line here and one in
    :func:`~sglang_lazy.request.segments.parse_options`.
    """

    chunk_context: Any = None
    chunk_link_tokens: Any = None


OPTION_NAMES = tuple(RequestOptions.model_fields)


def options_of(request: Any) -> dict[str, Any]:
    """The options of a request, those not given as None."""
    return {name: getattr(request, name, None) for name in OPTION_NAMES}


def refuse_options_without_documents(options: dict[str, Any]) -> None:
    """Raise a ValueError if a request without documents gives an option for them."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} needs documents, and the request has none")

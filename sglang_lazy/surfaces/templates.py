"""What a chat template takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta


def takes_documents(tokenizer: Any) -> bool:
    """Whether the tokenizer's chat template shows the ``documents`` that it is given."""
    try:
        return _reads(tokenizer.get_chat_template(), "documents")
    except ValueError:  # no template, or several and none to prefer
        return False


@lru_cache(maxsize=16)
def _reads(template: str, variable: str) -> bool:
    environment = jinja2.Environment(
        extensions=["jinja2.ext.loopcontrols", _GenerationBlocks], autoescape=False
    )
    try:
        return variable in jinja2.meta.find_undeclared_variables(environment.parse(template))
    except jinja2.TemplateSyntaxError:
        return False  # rendering it will say what is wrong


class _GenerationBlocks(jinja2.ext.Extension):
    """Knows transformers' ``{% generation %}`` blocks well enough to read past them."""

    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)

"""How documents arrive from clients that know nothing of ``segments``.

Everything here is plain Python without SGLang: what a document part says, how a chat
template is rendered around documents, where plain text is split. The hooks that call it
are in ``patches/openai_*.py`` and ``patches/anthropic_*.py``.
"""

NOT_ENABLED = "this server does not take documents: it was started without --chunk-cache lazy"

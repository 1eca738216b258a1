"""``python -m sglang_lazy.top``: what a server's chunk cache does, live."""

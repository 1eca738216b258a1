"""``python -m sglang_lazy.warm``: encode a corpus into the cache ahead of traffic."""

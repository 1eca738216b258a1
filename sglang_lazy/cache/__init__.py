"""The chunk cache: which KV a prompt can reuse, where it lies, and who owns it."""

"""Attention over the spans of a chunk-cached batch."""

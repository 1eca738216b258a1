"""Attention over ragged key spans with deferred rotary embedding (arXiv 2606.04302)."""

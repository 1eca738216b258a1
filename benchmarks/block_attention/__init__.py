"""A fair Block-Attention baseline (arXiv 2409.15355) for bench_zipf.py, on the same engine.

Documents are encoded alone and cached as in ``--chunk-cache lazy``, but each request that
reuses one receives a copy of its own, rotated to where the document stands in its prompt.
The copy is one fused kernel over all layers. From then on the request is an ordinary one:
it decodes on SGLang's own attention backend.

Loaded as an SGLang plugin (``plugin.py``) by the benchmark only.
"""

"""What the cache holds and how often it was right: statistics, metrics, ``GET /chunk_cache``."""

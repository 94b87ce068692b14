"""Several seeds of one training in one process, computed in batched products."""

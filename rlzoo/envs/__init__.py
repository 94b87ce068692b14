"""Vector environments, their wrappers and backends, and small test environments."""

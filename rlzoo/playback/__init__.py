"""Playing trained agents: episodes, videos, expert recordings."""

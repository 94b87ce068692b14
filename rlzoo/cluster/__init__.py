"""Tasks in other processes: workers of this machine, or the nodes of a Ray cluster."""

"""Agents of other libraries, read without running anything of theirs."""

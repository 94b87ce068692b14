"""Atari games: preprocessing wrappers and vectorised emulators."""

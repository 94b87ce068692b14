"""Fuzzers of everything that rlzoo reads: files, command lines, and runs that are killed or signalled.

    python -m tests.fuzz files --count 100000           all loaders; --loader NAME for one
    python -m tests.fuzz commands --count 3000
    python -m tests.fuzz kills --count 200
    python -m tests.fuzz signals --count 200

Every case follows from its fuzzer, `--seed` and its number; a break is printed with the command that repeats
it. The test suite runs a short form of each with fixed seeds.
"""

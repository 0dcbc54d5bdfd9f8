"""Hostile inputs for whatever reads bytes of strangers, peers or files; `python -m tests.fuzz --help` says how to run it."""

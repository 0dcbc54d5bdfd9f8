"""Serve jobs of Parallel-SGD on this machine: `python worker.py`, see `--help`."""

import sys

from psgd import worker

if __name__ == "__main__":
    sys.exit(worker())

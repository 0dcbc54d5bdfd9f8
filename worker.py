"""Serve jobs of Parallel-SGD on this machine: `python worker.py`, see `--help`."""

import sys

from rpc.agent.cli import main

if __name__ == "__main__":
    sys.exit(main())

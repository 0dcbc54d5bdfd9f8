"""Serve jobs of Parallel-SGD on this machine: `python worker.py`, see `--help`."""

import sys

try:
    from rpc.agent.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())

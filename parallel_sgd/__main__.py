"""Entry point of `python -m parallel_sgd`, the same as `psgd-submit`."""

import sys

from rpc.support.console import run_program

from .commands.cli import main

if __name__ == "__main__":
    sys.exit(run_program(main))

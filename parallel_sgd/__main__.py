"""`python -m parallel_sgd`: the same as `psgd-submit`."""

import sys

from rpc.console import run_program

from .cli import main

if __name__ == "__main__":
    sys.exit(run_program(main))

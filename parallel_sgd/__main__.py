"""`python -m parallel_sgd`: the same as `psgd-submit`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())

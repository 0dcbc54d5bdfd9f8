"""`python -m psgd`: the same as `psgd`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())

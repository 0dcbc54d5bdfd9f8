"""Train a saved model on several workers: `python job_submit.py -m dnn.model --local 2`, see `--help`."""

import sys

from parallel_sgd.cli import main

if __name__ == "__main__":
    sys.exit(main())

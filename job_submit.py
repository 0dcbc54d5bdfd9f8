"""Train a saved model on several workers: `python job_submit.py -m dnn.model --local 2`, see `--help`."""

import sys

from psgd import submit

if __name__ == "__main__":
    sys.exit(submit())

"""Train a saved model on several workers: `python job_submit.py -m dnn.model --local 2`, see `--help`."""

import sys

try:
    from parallel_sgd.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())

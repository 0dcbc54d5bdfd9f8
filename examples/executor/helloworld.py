"""Calls on two workers that are started for it: the interface of concurrent.futures, with lambdas and arrays.

python examples/executor/helloworld.py
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

from executor import ClusterExecutor, local_nodes


def main() -> int:
    """Call a function here and there."""
    psgd.no_options(__doc__)
    with local_nodes(2) as nodes, ClusterExecutor(nodes) as executor:
        future = executor.submit(lambda name: f"hello {name} from process {os.getpid()}", "world")
        print(future.result())
        sums = list(executor.map(np.sum, [np.arange(n) for n in (10, 100, 1000)]))
        print("sums:", *map(int, sums))
        try:
            executor.submit(divmod, 1, 0).result()
        except ZeroDivisionError as error:
            print("an error comes back as it is:", error)
    return int(sums != [45, 4950, 499500])


if __name__ == "__main__":
    raise SystemExit(main())

"""Pi from random points in a square, with a bar that shows how far it is.

python examples/executor/pi.py [--workers N] [--tasks N]
"""

import sys
from concurrent.futures import as_completed
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np
from tqdm import tqdm

from executor import ClusterExecutor, local_nodes

POINTS = 200_000


def hits(task: int) -> int:
    """How many of POINTS random points of the unit square lie within the quarter circle; each task draws its own."""
    draws = np.random.Generator(np.random.Philox(key=task))
    return int(((draws.random((POINTS, 2)) ** 2).sum(axis=1) <= 1.0).sum())


def main() -> int:
    """Deal the tasks out, and add up what comes, in whatever order."""
    parser = psgd.OptionParser(description="Pi from random points.")
    parser.add_argument("--workers", type=psgd.positive, default=2, help="processes on this machine (default 2)")
    parser.add_argument("--tasks", type=psgd.positive, default=40, help=f"tasks of {POINTS} points each (default 40)")
    options = parser.parse_args()
    total = 0
    with local_nodes(options.workers) as nodes, ClusterExecutor(nodes, pure=True) as executor:
        futures = [executor.submit(hits, task) for task in range(options.tasks)]
        for future in tqdm(as_completed(futures), total=len(futures)):
            total += future.result()
    pi = 4 * total / (POINTS * options.tasks)
    print(f"pi is about {pi:.4f}")
    return int(abs(pi - np.pi) > 0.02)


if __name__ == "__main__":
    raise SystemExit(main())

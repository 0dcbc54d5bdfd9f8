"""The product of two matrices, block by block: one matrix is brought to every worker once, the other comes in rows.

python examples/executor/matrix_product.py [--workers N] [--size N]
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

from executor import local_nodes
from executor.parallel import Context


def main() -> int:
    """Multiply, and compare with NumPy."""
    parser = psgd.OptionParser(description="Multiply two matrices on several workers.")
    parser.add_argument("--workers", type=psgd.positive, default=2, help="processes on this machine (default 2)")
    parser.add_argument("--size", type=psgd.positive, default=600, help="rows and columns (default 600)")
    options = parser.parse_args()
    draws = np.random.default_rng(1)
    left, right = draws.random((2, options.size, options.size))
    with local_nodes(options.workers) as nodes, Context(nodes) as context:
        shared = context.broadcast(right)
        rows = context.parallelize(left).map_partitions(
            lambda block: [np.reshape(list(block), (-1, len(shared.value))) @ shared.value]
        )
        product = np.concatenate(rows.collect())
    print(f"the largest difference from NumPy's product is {np.abs(product - left @ right).max():.1e}")
    return int(not np.allclose(product, left @ right))


if __name__ == "__main__":
    raise SystemExit(main())

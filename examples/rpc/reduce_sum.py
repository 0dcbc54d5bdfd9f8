"""The sum of many numbers, each worker adding up its share: an executor that asks for its data.

python examples/rpc/reduce_sum.py --local 3    on three workers that are started for it
python examples/rpc/reduce_sum.py -n 3         on the first three workers of ./worker.json, where `psgd worker` runs
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import network
import rpc

COUNT = 1_000_000


class ReduceSum(rpc.AbsExecutable):
    """Asks the submitter for its share of the numbers, and adds the partial sums of all workers."""

    share: Any = None
    total = 0

    def requests(self) -> Sequence[str]:
        """What this node needs before it can start."""
        return ["share"]

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """The share has come; nothing else is needed."""
        self.share = replies[0]
        return []

    def ready(self) -> bool:
        """Whether the share is here."""
        return self.share is not None

    def start(self, com: rpc.Communication) -> None:
        """Begins on all workers at once, when each of them has its share."""
        self.total = int(com.allreduce(self.share.sum(), "sum"))

    def done(self) -> rpc.ReplyPackage:
        """The result of this node: every node knows the total."""
        return rpc.ReplyPackage(self.total)


def main() -> int:
    """Deal the numbers out, wait for the sum, and check it."""
    parser = psgd.OptionParser(description="Add up a million numbers on several workers.")
    psgd.add_nodes(parser)
    options = parser.parse_args()
    numbers = np.arange(COUNT, dtype=np.int64)
    with psgd.nodes_of(parser, options) as nodes, network.Request().request(nodes) as com:
        shares = np.array_split(numbers, len(nodes))
        job = rpc.Coordinator(com, title="Sum")
        job.submit_group(ReduceSum, package_size=shares[0].nbytes)
        job.resources_dispatch(lambda node, request: rpc.ReplyPackage(shares[node]))
        results, error = job.join(stop_on_interrupt=bool(options.local))
    print(f"The sum of 0 to {COUNT - 1} is {results.get(0)}, say nodes {', '.join(map(str, results))}.")
    return int(error or set(results.values()) != {COUNT * (COUNT - 1) // 2})


if __name__ == "__main__":
    raise SystemExit(main())

"""A hand-written loop on two workers that tells where it is; the second one hangs, and is found, named and ended."""

from __future__ import annotations

import time

import psgd

import rpc
from network import Request
from parallel_sgd import local_workers
from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_epoch_end, monitor_train_end

STALL_SECONDS = 2.0


class Loop(rpc.AbsSimpleExecutor):
    """Three epochs of five batches; node 1 hangs in the second epoch."""

    signals = True

    def run(self, com: rpc.Communication) -> int:
        for epoch in range(3):
            for batch in range(5):
                monitor_batch_begin()
                if (com.rank, epoch, batch) == (1, 1, 2):
                    time.sleep(3600)
                monitor_batch_end()
            monitor_epoch_end()
        monitor_train_end()
        return com.rank


def main() -> int:
    """Returns 0 when the verdict names the node and the place."""
    psgd.no_options(__doc__)
    with local_workers(2) as nodes, Request().request(nodes) as com:
        coordinator = rpc.Coordinator(com, stall=STALL_SECONDS)
        coordinator.submit_group(Loop)
        coordinator.resources_dispatch(lambda node, request: None)
        results, _ = coordinator.join()
        verdict = coordinator.verdicts[0]
        print(f"Results: {results}")
        print(verdict.describe())
    return 0 if (verdict.node, verdict.epoch, verdict.batch) == (1, 2, 3) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""A hand-written loop on two workers that tells where it is and saves its state after every epoch.

The second worker hangs once: it is found and named, both are ended, and started again from the last epoch that both have saved.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import rpc
from network import Request
from parallel_sgd import local_workers
from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_epoch_end, monitor_train_end

STALL_SECONDS = 3.0
EPOCHS, BATCHES = 3, 5


class Loop(rpc.AbsSimpleExecutor):
    """Adds up what all workers bring to every batch; returns the sum, and how many batches this process has seen."""

    signals = True

    def run(self, com: rpc.Communication) -> list[float]:
        folder = com.output_directory  # the same in every attempt at this job
        saved = [int(path.stem) for path in folder.glob("[0-9]*.npy")]
        first = int(com.allreduce([max(saved, default=0)], "min")[0])  # the last epoch that all have finished
        total = np.load(folder / f"{first}.npy") if first else np.zeros(1)
        seen = 0
        for epoch in range(first, EPOCHS):
            for batch in range(BATCHES):
                monitor_batch_begin(epoch, batch)
                if (com.attempt, com.rank, epoch, batch) == (0, 1, 1, 2):
                    time.sleep(3600)
                total += com.allreduce([com.rank + 1.0], "sum")
                seen += 1
                monitor_batch_end()
            np.save(folder / "draft", total)
            (folder / "draft.npy").rename(folder / f"{epoch + 1}.npy")  # whole, or not there
            monitor_epoch_end()
        monitor_train_end()
        return [float(total[0]), seen]


def main() -> int:
    """Returns 0 when the verdict names the node and the place, and the second attempt has done the rest."""
    psgd.no_options(__doc__)
    with local_workers(2) as nodes, Request().request(nodes) as com:
        coordinator = rpc.Coordinator(com, stall=STALL_SECONDS)
        coordinator.submit_group(Loop, on_failure="restart")
        coordinator.resources_dispatch(lambda node, request: None)
        results, _ = coordinator.join()
        verdict = coordinator.verdicts[0]
        print(verdict.describe())
        print(f"Results after {coordinator.restarts} restart: {results}")
    whole = [EPOCHS * BATCHES * 3.0, (EPOCHS - 1) * BATCHES]
    return 0 if (verdict.node, verdict.epoch, verdict.batch) == (1, 2, 3) and results == {0: whole, 1: whole} else 1


if __name__ == "__main__":
    raise SystemExit(main())

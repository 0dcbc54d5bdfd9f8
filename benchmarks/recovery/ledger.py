"""What the ledger costs: noting a batch and writing its rows, against a step."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.exchange.training import model
from benchmarks.exchange.workload import NETWORKS
from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.engine.progress import History
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.record.block_history import LedgerTable, Recorder

SHARE_LIMIT = 0.01
_BATCHES = 5_000
_ROUNDS = 7


def ledger() -> bool:
    """Print the share of the ledger in a step of the tutorial model on one of two workers; return whether it is small."""
    network = NETWORKS["tutorial"]
    x, y = network.samples()
    made = model("tutorial")
    made.compile(ADAMOptimizer())
    codec = SimpleNamespace(copies=(((0, 1), 0), ((1, 2), 1)))
    codecs = [codec] * len(made.trainable_variables())
    bank: Any = SimpleNamespace(codecs=codecs, assignment=FixedBlockAssignment(2, 1, 2), node_id=0)

    def step() -> float:
        begin = time.perf_counter()
        made.fit(x, y, epoch=1, batch_size=network.batch, shuffle=False, verbose=0)
        return (time.perf_counter() - begin) / network.per_epoch

    def note(folder: Path) -> float:
        table = LedgerTable(folder / "LEDGER-t-N(0).csv", 0, [0], History())
        recorder = Recorder(bank, 0, History(), table)
        begin = time.perf_counter()
        for batch in range(_BATCHES):
            recorder.applied(0, batch)
        table.save()
        return (time.perf_counter() - begin) / _BATCHES

    step()
    with tempfile.TemporaryDirectory() as folder:
        share = statistics.median(note(Path(folder)) / step() for _ in range(_ROUNDS))
    print(f"ledger of a step of {network}: {100 * share:.2f} % of it, limit {100 * SHARE_LIMIT:g} %", flush=True)
    return share <= SHARE_LIMIT

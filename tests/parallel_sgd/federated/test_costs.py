"""Rounds of clients beside the same steps and draws in plain NumPy: processor time and memory; their files and evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import nn
from benchmarks.clients.__main__ import CASES, Case, job, loop, network, peak, seconds
from nn.threads import limited_to_one_thread
from parallel_sgd import Clients, ParallelSGD, in_process
from tests.parallel_sgd.federated.reference import arrays
from tests.statements import covers

ROUNDS, PAIRS, MOST_MEMORY = 30, 5, 200


@covers("RES-2")
@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_round_takes_no_more_processor_time_and_memory_than_the_limits(case: Case, tmp_path: Path) -> None:
    folder = str(tmp_path)
    with limited_to_one_thread():
        ours, theirs = job(case, ROUNDS, folder), loop(case, ROUNDS)
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs - network(case).store.values).max()
        pairs = [(seconds(job, case, ROUNDS, folder), seconds(loop, case, ROUNDS, folder)) for _ in range(PAIRS)]
    # the least of each: what other programs take away from the cache comes on top of it
    assert min(mine for mine, _ in pairs) < case.most * min(its for _, its in pairs)
    assert peak("job", case, ROUNDS) - peak("loop", case, ROUNDS) < MOST_MEMORY


class Counted(nn.metric.Metric):
    """Number of the batches that it has seen, of every object together."""

    name = "counted"
    sizes: ClassVar[list[int]] = []

    def reset(self) -> None:
        """Nothing is forgotten."""

    def update(self, label: Any, prediction: Any) -> None:
        self.sizes.append(len(label))

    def result(self) -> float:
        return 0.0


@covers("RES-2")
def test_files_do_not_grow_with_the_clients_and_an_epoch_has_one_evaluation(tmp_path: Path) -> None:
    counts, epochs = [], 3
    for clients in (20, 150):
        made = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(10, "softmax")], seed=1)
        made.setup("crossentropy_with_softmax", Counted())
        Counted.sizes.clear()
        folder = tmp_path / str(clients)
        with in_process(1) as nodes:
            ParallelSGD(made, nn.dataset.ArrayDataset(*arrays())).parallel(
                nodes, clients=Clients(clients, sample=6, rounds=4), block_size=7, epoch=epochs, verbose=0, directory=folder
            )
        # clients have fewer samples than the test set
        assert Counted.sizes.count(len(arrays()[2])) == epochs
        counts.append(sum(path.is_file() for path in folder.rglob("*")))
    assert counts[0] == counts[1]

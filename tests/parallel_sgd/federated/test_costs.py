"""Files and evaluations of rounds of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import nn
from parallel_sgd import Clients, ParallelSGD, in_process
from tests.parallel_sgd.federated.reference import arrays


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

"""A codec over the whole gradient on real workers, one of which is killed: the bits of one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nn
import parallel_sgd
from nn.arrays import Array
from nn.gradient_descent import SGDOptimizer
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll, Krum, Round
from parallel_sgd.codec.pipeline import ErrorFeedback, GlobalTopK
from parallel_sgd.engine.progress import Position
from tests.processes.harness import wait_for

BATCHES = 5  # of an epoch


class KrumOnceSaved(Krum):
    """Krum that waits, in the first batch of the second epoch, for this worker's checkpoint of the first one, which is written
    beside training: a worker that is killed before it is on disk has no memory to go on with."""

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        if round_ is not None and round_.number == BATCHES:
            wait_for(Path("checkpoints", file_name(Position(1, 0))).exists, "the checkpoint of the first epoch")
        return super().combine(parts, weights, round_)


def test_krum_of_sparse_gradients_goes_on_after_a_kill(tmp_path: Path) -> None:
    """What the codecs remember of the whole gradient comes out of the checkpoint of the epoch before."""
    killed, calm = (
        Codec.of(AllToAll(), up=ErrorFeedback(GlobalTopK(0.05)), merge=merge) for merge in (KrumOnceSaved(0), Krum(0))
    )
    options: dict[str, Any] = {
        "gd_type": SGDOptimizer, "gd_params": (0.2,), "block_size": 100, "epoch": 2, "verbose": 0,
        "on_failure": "restart", "checkpoint_every": "epoch",
    }  # fmt: skip
    model = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(10, "softmax")])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    job = parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls())
    with parallel_sgd.local_workers(3) as nodes:
        real = job.parallel(nodes, codec=killed, fault="kill 1@e2.b2", directory=tmp_path / "real", **options)
    here = job.parallel(parallel_sgd.in_process(3), codec=calm, directory=tmp_path / "here", **options)
    weights = {model.store.values.tobytes() for result in (real, here) for model in result.models.values()}
    assert len(weights) == 1
    # it did happen: the ledger has rows that the restart has undone, or batches of a second attempt
    ledger = next(path for path in real.files[0] if path.name.startswith("LEDGER"))
    assert {line.split(",")[0] for line in ledger.read_text().splitlines()[1:]} > {"1"}

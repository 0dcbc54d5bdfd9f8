"""GAOptimizer on many workers: ascent along what the gradients are merged to, with every codec that takes gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec
from nn.arrays import Array
from nn.gradient_descent import MomentumOptimizer, SGDOptimizer
from nn.loss import MSELoss
from nn.metric import MeanSquareError
from nn.model import Model
from nn.optimizer import GAOptimizer, PSGDOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.codec import Codec, Plain, Ring, SyncPS, TopK
from parallel_sgd.options.compatibility import check_meaning
from parallel_sgd.options.names import known_classes
from parallel_sgd.profiles import CyclicAssignment
from tests.processes.training.jobs import line_data, line_model, weights


class Opposite(MSELoss):
    """Minus the mean square error."""

    def sum_losses(self, label: Array, output: Array) -> float:
        return -super().sum_losses(label, output)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        super().slope(difference, share, out)
        np.negative(out, out=out)


def run(directory: Path, kind: type[Codec], model: Model, **settings: Any) -> JobResult:
    settings = {"gd_type": SGDOptimizer, "gd_params": (0.01,), "block_size": 2, "epoch": 2, **settings}
    with in_process(settings.pop("workers", 2), ps=kind.traits.needs_server) as nodes:
        return ParallelSGD(model, line_data()).parallel(nodes, codec=kind, directory=directory, **settings)


@pytest.mark.parametrize("kind", [Plain, Ring, SyncPS, TopK])
def test_ascent_is_descent_on_the_opposite_loss(kind: type[Codec], tmp_path: Path) -> None:
    """Bit for bit, on all workers, for a rule with a memory."""
    rule = {"gd_type": MomentumOptimizer if kind is not TopK else SGDOptimizer}
    opposite = line_model()
    opposite.setup(Opposite(), MeanSquareError())
    up = weights(run(tmp_path, kind, line_model(), op_type=GAOptimizer, **rule))
    down = weights(run(tmp_path, kind, opposite, op_type=PSGDOptimizer, **rule))
    assert up == down
    assert len(set(up.values())) == 1


def _admitted(kind: type[Codec]) -> bool:
    try:
        check_meaning(GAOptimizer, kind)
    except ValueError:
        return False
    return kind.traits.takes is None


KNOWN = [kind for kind in known_classes(parallel_sgd.codec, Codec).values() if _admitted(kind)]
SETTINGS: dict[str, dict[str, Any]] = {
    "Krum": {"workers": 5},
    "TrimmedMean": {"workers": 3},
    "GradCode": {"assignment_type": CyclicAssignment},
    "GradCodePeers": {"assignment_type": CyclicAssignment},
}


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
@pytest.mark.share(12)
def test_the_loss_grows_with_every_codec_that_takes_gradients(kind: type[Codec], tmp_path: Path) -> None:
    model = line_model()
    test_x, test_y = line_data().load()[2:]
    before = model.evaluate(test_x, test_y)["Loss"]
    result = run(tmp_path, kind, model, op_type=GAOptimizer, **SETTINGS.get(kind.__name__, {}))
    assert result["Loss"] > before

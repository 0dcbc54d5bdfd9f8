"""Every codec that ships trains a model on the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import parallel_sgd.codec
from nn.dataset import Digits
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, LocalUpdateOptimizer, ParameterAveragingOptimizer, PSGDOptimizer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import Codec
from parallel_sgd.options.names import known_classes
from parallel_sgd.profiles import CyclicAssignment
from tests.parallel_sgd.networks import mlp

ADAM: dict[str, Any] = {"gd_type": ADAMOptimizer, "gd_params": (1e-2,)}
SLOW: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.2,), "epoch": 3}
SIGNS: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (5e-3,)}
UPDATES: dict[str, Any] = {**ADAM, "op_type": LocalUpdateOptimizer}
PARAMETERS: dict[str, Any] = {**ADAM, "op_type": ParameterAveragingOptimizer}
SERVED: dict[str, Any] = {"op_type": GradientAveragingOptimizer, "sync_type": AsynchronizedSGD}


def every(batches: int, **more: Any) -> dict[str, Any]:
    return {**PARAMETERS, "codec_extra_parameters": {"local_batches": batches, **more}}


#: What each codec is made for; those that are not listed take gradients, and Adam follows the merge.
SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("EFSign", "EFSignBothWays", "OneBit", "TopK", "TopKInt8", "ShardedTopK"), UPDATES),
    **dict.fromkeys(("SignSGD", "Signum", "SignSGDPS"), SIGNS),
    **dict.fromkeys(("DPSGD", "CHOCO", "RandomPair", "SMA"), PARAMETERS),
    **dict.fromkeys(("FedAvg", "LocalSGD"), every(10)),
    "FedProx": {**every(10), **SLOW},
    "SCAFFOLD": {**every(10), **SLOW},
    "ADPSGD": {**PARAMETERS, "sync_type": AsynchronizedSGD},
    "OneBitAdam": {"op_type": GradientAveragingOptimizer, "codec_extra_parameters": {"learn_rate": 1e-2, "warmup": 30}},
    **dict.fromkeys(("DiLoCo", "DiLoCoPS"), every(5)),
    "AsyncPS": {**SERVED, "gd_type": SGDOptimizer, "gd_params": (0.2,)},
    "DCASGD": {**SERVED, "gd_type": SGDOptimizer, "gd_params": (0.2,)},
    "DGC": {"gd_type": SGDOptimizer, "gd_params": (0.05,), "codec_extra_parameters": {"rho": 0.01, "warmup": 30}},
    "FedAdam": every(5, learn_rate=3e-2),
    "GradCode": {**ADAM, "assignment_type": CyclicAssignment, "redundancy": 1},
    "GradCodePeers": {**ADAM, "assignment_type": CyclicAssignment, "redundancy": 2},
    "LAQ": SLOW,
    "ServerAdam": {"op_type": GradientAveragingOptimizer, "codec_extra_parameters": {"learn_rate": 1e-2}},
}
WORKERS = {"Krum": 5, "TrimmedMean": 3}
KNOWN = sorted(known_classes(parallel_sgd.codec, Codec).values(), key=lambda kind: kind.__name__)
#: Made of the parts of others that train in `make test`, too.
LIKE_OTHERS = {
    *("BF16", "DiLoCoPS", "EFSignBothWays", "FedAdam", "FirstCopyInt8", "GradCodePeers", "LevelQuantizer", "Natural"),
    *("RandomPair", "ServerAdam", "ShardedLevels", "ShardedPS", "ShardedTopK", "SignSGDPS", "Signum", "TopKInt8"),
}
TRAINED = [
    pytest.param(kind, id=kind.__name__, marks=pytest.mark.long if kind.__name__ in LIKE_OTHERS else ())
    for kind in KNOWN
    if kind.__name__ != "DummyCodec"
]


@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.share(45)
def test_it_trains(kind: type[Codec], tmp_path: Path) -> None:
    """Two or three epochs of 31 batches of 48 samples and one of 12: above 80 % of the test images."""
    settings = {"op_type": PSGDOptimizer, "epoch": 2, **(SETTINGS.get(kind.__name__) or ADAM)}
    workers = WORKERS.get(kind.__name__, 2)
    job = ParallelSGD(mlp(), Digits(), Shuffle().add(ImageCls()))
    with in_process(workers, ps=kind.traits.needs_server) as nodes:
        result = job.parallel(nodes, codec=kind, block_size=48 // workers, directory=tmp_path, **settings)
    assert result["accuracy"] > 0.8

"""Every optimizer in real jobs: workers of this process, codecs, several blocks per worker."""

import functools
from typing import Any

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, Cosine, IGradientDescent, LAMBOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    OpContainer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
    ShardedPSGDOptimizer,
)
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, ISetting
from rpc.shipping import load, pack
from tests.parallel_sgd.digits_job import DigitsJob, plan_of
from tests.parallel_sgd.networks import mlp

EPOCHS, BLOCK = 2, 32
BATCHES = EPOCHS * -(-1500 // (4 * BLOCK))


class EveryTwelfth(FederatedOptimizer):
    """Divides the number of batches, so that the job ends with an exchange."""

    local_batches = 12


class EveryFifth(FederatedOptimizer):
    local_batches = 5


@functools.cache
def trained(
    kind: type[IOptimizer], rule: type[IGradientDescent], workers: int | ISetting, rate: float | Cosine = 0.1, **arguments: Any
) -> tuple[Array, ...]:
    """The weights of all workers; one of four blocks each, or as an assignment says."""
    assignment = FixedBlockAssignment(workers, 1, 4) if isinstance(workers, int) else workers
    container = OpContainer(kind, rule, {"learn_rate": rate, **arguments})
    plan = plan_of(assignment, block_size=BLOCK, epoch=EPOCHS, seed=11, optimizer=container)
    job = DigitsJob(plan, mlp(dropout=0.25)).run()
    return tuple(np.frombuffer(weights, np.float32) for weights in job.weights())


@pytest.mark.parametrize("kind", [LocalUpdateOptimizer, ParameterAveragingOptimizer])
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_with_sgd_all_ways_of_exchange_agree(kind: type[IOptimizer], workers: int) -> None:
    found = trained(kind, SGDOptimizer, workers)
    assert all(np.array_equal(values, found[0]) for values in found), "replicas stay equal"
    np.testing.assert_allclose(found[0], trained(PSGDOptimizer, SGDOptimizer, 1)[0], rtol=0, atol=1e-6)


SHARDED = {"rate": Cosine(0.01, BATCHES), "clip_value": 0.01, "weight_decay": 1e-3}


@pytest.mark.parametrize(
    ("kind", "same", "rule", "arguments"),
    [
        (DoubleBufferingOptimizer, None, MomentumOptimizer, {"rate": 0.02, "clip_norm": 1.0}),
        (PSGDOptimizer, None, LAMBOptimizer, {"rate": 0.01, "clip_norm": 1.0}),
        (PSGDOptimizer, None, ADAMOptimizer, {"rate": Cosine(1e-3, BATCHES), "clip_norm": 1.0}),
        (PSGDOptimizer, None, SGDOptimizer, {"rate": 0.1, "clip_variable_norm": 0.1, "momentum": 0.9, "nesterov": True}),
        *((ShardedPSGDOptimizer, PSGDOptimizer, rule, SHARDED) for rule in (SGDOptimizer, MomentumOptimizer, ADAMOptimizer)),
    ],
)
@pytest.mark.share(8)
def test_bits_do_not_depend_on_the_number_of_workers(kind: Any, same: Any, rule: Any, arguments: dict[str, Any]) -> None:
    """Those of a sharded rule are those of parallel SGD."""
    (reference,) = trained(same or kind, rule, 1, **arguments)
    assert np.isfinite(reference).all()
    for workers in (1, 2, 3, 4):
        assert all(np.array_equal(values, reference) for values in trained(kind, rule, workers, **arguments))


def test_redundant_blocks_count_once() -> None:
    assignment = DuplicateAssignment(4, 2)
    expected = trained(PSGDOptimizer, ADAMOptimizer, assignment, 1e-3)[0]
    assert all(np.array_equal(found, expected) for found in trained(ShardedPSGDOptimizer, ADAMOptimizer, assignment, 1e-3))


def test_the_delay_of_double_buffering_acts() -> None:
    (late,) = trained(DoubleBufferingOptimizer, SGDOptimizer, 1)
    (prompt,) = trained(PSGDOptimizer, SGDOptimizer, 1)
    assert not np.array_equal(late, prompt)
    np.testing.assert_allclose(late, prompt, atol=0.1)


def test_federated_workers_meet_every_so_many_batches() -> None:
    assert BATCHES == 24
    together = trained(EveryTwelfth, ADAMOptimizer, 3, 1e-3)
    assert all(np.array_equal(values, together[0]) for values in together)
    apart = trained(EveryFifth, ADAMOptimizer, 3, 1e-3)
    assert not np.array_equal(apart[0], apart[1])


def test_a_container_with_schedule_and_limits_travels_without_code() -> None:
    container = OpContainer(LocalUpdateOptimizer, ADAMOptimizer, {"learn_rate": Cosine(1e-3, 100), "clip_norm": 1.0})
    bundle = pack({"optimizer": container})
    assert bundle.code == b""
    objects, _ = load(bundle.objects, bundle.code, "none")
    assert repr(objects["optimizer"].rule()) == repr(container.rule())
    assert objects["optimizer"].op_type is LocalUpdateOptimizer

"""n workers = one worker = a plain loop, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.optimizer import OpContainer, PSGDOptimizer, ShardedPSGDOptimizer
from parallel_sgd.codec import DummyCodec
from parallel_sgd.engine.plan import WorkerPlan
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from tests.parallel_sgd.dealing import dealt, factors
from tests.parallel_sgd.digits_job import ADAM, DigitsJob, digits, plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers

BLOCK, BLOCKS, EPOCHS, SEED = 32, 4, 3, 11


def one_loop(model: Model, rule: IGradientDescent, seed: int = SEED, samples: int = 1500) -> np.ndarray:
    """The four blocks of every batch one after the other, merged by hand, without any part of the engine."""
    x, y, _, _ = digits()
    values, gradients = model.store.values, model.store.gradients
    for epoch in range(EPOCHS):
        for batch, blocks in enumerate(dealt(samples, BLOCK, BLOCKS, epoch, seed)):
            parts = []
            for block, (places, factor) in enumerate(zip(blocks, factors(blocks), strict=True)):
                gradients[:] = 0
                if len(places):
                    model.compute_gradients(x[places], y[places], key=(seed, epoch, batch, block))
                parts.append(gradients * factor)
            gradients[:] = ((parts[0] + parts[1]) + (parts[2] + parts[3])) / np.float32(4)
            rule.update(values, gradients)
    return values


def assignment_of(nodes: int) -> ISetting:
    return FixedBlockAssignment(nodes, 1, BLOCKS)


def plan(assignment: ISetting, **changes: object) -> WorkerPlan:
    given = {"block_size": BLOCK, "epoch": EPOCHS, "seed": SEED, "optimizer": ADAM, **changes}
    return plan_of(assignment, **given)  # type: ignore[arg-type]


@pytest.mark.share(2)
@covers("SUB-20")
@pytest.mark.parametrize(
    ("rule", "rate"), [(ADAMOptimizer, 1e-3), (SGDOptimizer, 0.1)], ids=lambda value: getattr(value, "__name__", None)
)
def test_any_number_of_workers_gives_the_bits_of_one_loop(rule: type[IGradientDescent], rate: float) -> None:
    """Dropout included, since every random draw is keyed by (seed, epoch, batch, block)."""
    reference = one_loop(mlp(dropout=0.25), rule(rate)).tobytes()
    optimizer = OpContainer(PSGDOptimizer, rule, gd_params=(rate,))
    for nodes, copies in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2)]:
        assignment = FixedBlockAssignment.of(blocks=BLOCKS)(nodes, copies)
        job = DigitsJob(plan(assignment, optimizer=optimizer), mlp(dropout=0.25)).run()
        assert job.weights() == [reference] * nodes


@pytest.mark.share(2)
@covers("SUB-45")
@pytest.mark.parametrize("tail", [82, 2], ids=["uneven", "with empty blocks"])
def test_a_tail_that_blocks_do_not_share_evenly_gives_the_bits_of_one_loop(tail: int) -> None:
    """The mean over blocks is the mean over samples, whoever has them; an empty block gives zeros."""
    samples = 11 * BLOCK * BLOCKS + tail
    reference = one_loop(mlp(dropout=0.25), ADAMOptimizer(1e-3), samples=samples).tobytes()
    x, y, *test = digits()
    for nodes, copies in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2)]:
        assignment = FixedBlockAssignment.of(blocks=BLOCKS)(nodes, copies)
        job = DigitsJob(plan(assignment), mlp(dropout=0.25), data=(x[:samples], y[:samples], *test)).run()
        assert job.weights() == [reference] * nodes
    sharded = OpContainer(ShardedPSGDOptimizer, ADAMOptimizer, (1e-3,))
    job = DigitsJob(plan(assignment_of(3), optimizer=sharded), mlp(dropout=0.25), data=(x[:samples], y[:samples], *test)).run()
    assert job.weights() == [reference] * 3


@pytest.mark.parametrize("assignment", [IIDBlockAssignment(4), DuplicateAssignment(8, 2)])
def test_the_assignment_does_not_change_the_bits(assignment: ISetting) -> None:
    """Plain: four workers with a block each compute what one process computes."""
    reference = one_loop(mlp(), ADAMOptimizer(1e-3)).tobytes()
    assert DigitsJob(plan(assignment), mlp()).run().weights() == [reference] * assignment.node_count


@covers("SUB-22", "SUB-23")
def test_a_link_that_delays_and_repeats_does_not_change_the_bits() -> None:
    """On a real model."""
    rng = np.random.default_rng(0)
    reference = one_loop(mlp(), ADAMOptimizer(1e-3)).tobytes()
    link = lambda *_: tuple(rng.random(1 + rng.integers(0, 2)).tolist())  # noqa: E731
    job = DigitsJob(plan(FixedBlockAssignment(4, 1, BLOCKS)), mlp(), link=link).run()
    assert job.weights() == [reference] * 4
    assert job.clock.monotonic() > 1


def test_another_seed_gives_other_bits() -> None:
    """The seed acts: without it the tests above could not fail."""
    assert one_loop(mlp(0.25), SGDOptimizer(0.1), 1).tobytes() != one_loop(mlp(0.25), SGDOptimizer(0.1), 2).tobytes()


def test_blocks_equal_one_big_batch() -> None:
    """Within 1e-6 of the gradients of the whole batch at once."""
    x, y, _, _ = digits()
    job = DigitsJob(plan(FixedBlockAssignment(2, 1, BLOCKS), optimizer=OpContainer(PSGDOptimizer, SGDOptimizer, (0.1,))), mlp())
    job.run()
    big, rule = mlp(), SGDOptimizer(0.1)
    for epoch in range(EPOCHS):
        for blocks in dealt(len(x), BLOCK, BLOCKS, epoch, SEED):
            places = np.concatenate(blocks)
            big.compute_gradients(x[places], y[places])
            rule.update(big.store.values, big.store.gradients)
    np.testing.assert_allclose(job.models[0].store.values, big.store.values, rtol=0, atol=1e-6)


@covers("SUB-20")
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_evaluations_are_equal_byte_for_byte(nodes: int, tmp_path: Path) -> None:
    """All workers' EV files, and those of the 1-worker run with the same blocks."""
    DigitsJob(plan(FixedBlockAssignment(nodes, 1, BLOCKS)), mlp(), directory=tmp_path).run()
    (tmp_path / "one").mkdir()
    DigitsJob(plan(FixedBlockAssignment(1, 1, BLOCKS)), mlp(), directory=tmp_path / "one").run()
    reference = (tmp_path / "one" / "EV-digits-N(0).csv").read_bytes()
    assert reference.count(b"\n") == 1 + EPOCHS
    assert [(tmp_path / f"EV-digits-N({node}).csv").read_bytes() for node in range(nodes)] == [reference] * nodes


def test_dummy_codec_trains_different_models() -> None:
    """No exchange: every worker steps with the mean of its own blocks."""
    job = DigitsJob(plan(FixedBlockAssignment(2, 1, BLOCKS), codec=DummyCodec), mlp()).run()
    assert len(set(job.weights())) == 2
    x, y, _, _ = digits()
    alone, rule = mlp(), ADAMOptimizer(1e-3)
    for epoch in range(EPOCHS):
        for batch, blocks in enumerate(dealt(len(x), BLOCK, BLOCKS, epoch, SEED)):
            parts = []
            for block in (2, 3):
                places = blocks[block]
                alone.compute_gradients(x[places], y[places], key=(SEED, epoch, batch, block))
                parts.append(alone.store.gradients.copy())
            alone.store.gradients[:] = (parts[0] + parts[1]) / np.float32(2)
            rule.update(alone.store.values, alone.store.gradients)
    assert job.weights()[1] == alone.store.values.tobytes()


@pytest.mark.parametrize("shift", [4, 16, 36])
def test_bits_do_not_depend_on_where_arrays_lie(shift: int) -> None:
    """A worker's buffers lie elsewhere than another's; the kernels must not care."""
    x, y, _, _ = digits()
    rows = x[:BLOCK]
    memory = np.empty(rows.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    moved = memory[start : start + rows.nbytes].view(np.float32).reshape(rows.shape)
    moved[...] = rows
    one, two = mlp(), mlp()
    losses = [one.compute_gradients(rows, y[:BLOCK])[0], two.compute_gradients(moved, y[:BLOCK])[0]]
    assert losses[0] == losses[1]
    assert one.store.gradients.tobytes() == two.store.gradients.tobytes()

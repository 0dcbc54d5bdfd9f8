"""Rules that hold a rule, and decay of kernels, in jobs: one, two and four workers have the same bits and the same averages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nn.callback import SwapEMA
from nn.gradient_descent import (
    ADAMWOptimizer,
    GradientAccumulation,
    KernelDecay,
    LionOptimizer,
    MovingAverage,
    NadamOptimizer,
    OneCycle,
)
from nn.optimizer import ShardedPSGDOptimizer
from parallel_sgd import JobResult, in_process
from tests.processes.training.jobs import FOUR_BLOCKS, line_job


def run(folder: Path, workers: int, epochs: int = 4, **settings: object) -> JobResult:
    rule = MovingAverage(ADAMWOptimizer(OneCycle(0.05, 20), weight_decay=KernelDecay(0.1), amsgrad=True), 0.8)
    given = {"gd_type": GradientAccumulation, "gd_params": {"rule": rule, "steps": 2}, "callbacks": [SwapEMA()], **settings}
    with in_process(workers) as nodes:
        return line_job().parallel(nodes, epoch=epochs, directory=folder, assignment_type=FOUR_BLOCKS, block_size=3, **given)


def test_any_number_of_workers_gives_the_same_bits_and_the_same_averages(tmp_path: Path) -> None:
    models = [model for workers in (1, 2, 4) for model in run(tmp_path, workers).models.values()]
    assert len(models) == 7 and len({model.store.values.tobytes() for model in models}) == 1
    plain = run(tmp_path, 1, callbacks=[]).models[0]
    assert not np.array_equal(plain.store.values, models[0].store.values)
    lion = run(tmp_path, 2, gd_type=LionOptimizer, gd_params={"learn_rate": 1e-3}, callbacks=[])
    assert len({model.store.values.tobytes() for model in lion.models.values()}) == 1


@pytest.mark.parametrize("steps", [2, 7])
def test_a_job_that_goes_on_has_the_bits_of_one_never_stopped(tmp_path: Path, steps: int) -> None:
    """Also with gradients added up that no step has used yet, and with the averages so far."""
    average = MovingAverage(NadamOptimizer(OneCycle(0.05, 20)), 0.8)
    settings = {"gd_params": {"rule": average, "steps": steps}, "callbacks": [], "checkpoint_every": 1}
    whole = run(tmp_path / "whole", 2, 4, **settings)
    run(tmp_path / "cut", 2, 1, **settings)
    rest = run(tmp_path / "cut", 2, 4, resume="last", **settings)
    assert rest.models[1].store.values.tobytes() == whole.models[1].store.values.tobytes() and rest == whole
    sharded = run(tmp_path, 2, 4, op_type=ShardedPSGDOptimizer, **settings)
    assert sharded.models[0].store.values.tobytes() == whole.models[0].store.values.tobytes()

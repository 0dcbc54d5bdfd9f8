"""Nothing that follows the last batch takes a result away: an error at each call, one after the other."""

from __future__ import annotations

import gc
import itertools
import shutil
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import nn
from parallel_sgd import JobResult
from parallel_sgd.engine.training import TrainingProcess
from parallel_sgd.simulation.kernel import run_kernel
from tests.statements import covers

from .faulty import Injector
from .runs import train

OPTIONS: dict[str, Any] = {"epoch": 1, "block_size": 40, "checkpoint_every": "epoch"}
NEEDED = ("_batch", "_evaluate")  # what follows the last batch and makes the figures


def follows(frame: FrameType) -> bool:
    """Whether a call of a job in this process, whose first evaluation is over, has no part in the figures any more."""
    each: FrameType | None = frame
    while each is not None:
        code = each.f_code
        if code.co_name in NEEDED:
            return False
        if code is TrainingProcess.run.__code__:
            return "evaluation" in each.f_locals
        if code is run_kernel.__code__:
            return all(seat.result is not None for seat in each.f_locals["kernel"]._seats.values())
        each = each.f_back
    return True


MAKING = (
    *("kernel.py:_turn", "kernel.py:_leave", "kernel.py:_next", "kernel.py:run", "kernel.py:run_kernel"),
    *("run.py:__init__", "run.py:_means", "run.py:<dictcomp>", "run.py:JobResult.__init__"),
    "writers/live.py:following",
)
"""Callers and calls that bring the nodes to their figures and make the result of them, and the last guard of the writers."""
ROOTS = ("run", "run_here", "_run_in", "reported", "parallel", "_files_of", "run_in_process", "run_kernel")
"""Functions from which all that follows is called."""


class Noted(nn.callback.Callback):
    def on_epoch_end(self, epoch: int, logs: Any) -> None:
        pass

    def on_train_end(self, logs: Any) -> None:
        pass


class Kept:
    """A writer."""

    def start(self, config: Any) -> None:
        pass

    def log(self, step: int, values: Any) -> None:
        pass

    def finish(self, status: str) -> None:
        pass


def same(result: JobResult, honest: JobResult) -> bool:
    weights = [[np.array_equal(a.value, b.value) for a, b in zip(mine.store.everything, its.store.everything, strict=True)]
               for mine, its in zip(result.models.values(), honest.models.values(), strict=True)]  # fmt: skip
    return dict(result) == dict(honest) and all(map(all, weights)) and len(weights) == 2


@pytest.mark.long
@covers("RUN-8")
@pytest.mark.parametrize("depth", [1, None])
def test_in_this_process(depth: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With callbacks, checkpoints and a writer; `depth` calls below what follows, or all."""

    def job(number: int) -> JobResult:
        more = {"callbacks": [Noted()], "writers": [Kept()]}
        return train(directory=tmp_path / str(number), **OPTIONS, **more)

    honest = job(0)
    evaluate = TrainingProcess._evaluate

    def evaluated(self: TrainingProcess) -> dict[str, float]:
        figures = evaluate(self)
        injector.begin()
        return figures

    monkeypatch.setattr(TrainingProcess, "_evaluate", evaluated)
    injector = Injector(follows, ROOTS, depth, MAKING)
    for number in itertools.count(1):
        with injector.injecting():
            result = job(number)
        assert same(result, honest), injector.tried
        if not injector.count:
            break
        shutil.rmtree(tmp_path / str(number))
    gc.collect()
    assert len(injector.tried) > (100 if depth else 500)

"""Names of a subclass's own in real jobs of two workers: none of the commonest ones changes a bit of any worker's model."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from network.nodes import Address, NodeAssignment
from nn.extension import OverrideWarning
from nn.optimizer import PSGDOptimizer
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll
from parallel_sgd.nodes import LocalNodes
from rpc.launch import Launcher
from tests.contract.common_names import COMMON
from tests.contract.test_names_of_parts import _GENERAL, ROWS, Kind, OwnWorker, Row, _derived, _names, _uses


class OwnExchange(PSGDOptimizer):
    """Sends a half of each gradient."""

    def gradient_ready(self, variable: Any, block_id: int) -> None:
        variable.gradient[...] *= 0.5
        super().gradient_ready(variable, block_id)


class OwnAgents(Launcher):
    """Agents that run already."""

    lasting = True

    def __init__(self, agents: LocalNodes) -> None:
        self._running = agents
        self.key_file = agents.key_file

    def start(self, count: int) -> list[Address]:
        return [self._running[node] for node in range(count)]


def _job(
    model: nn.model.Model | None = None,
    ps: bool = False,
    on: AbstractContextManager[NodeAssignment] | None = None,
    **options: Any,
) -> object:
    """Results and the weights of each worker after two epochs of four batches, by default within this process."""
    drawn = np.random.default_rng(0)
    x, y, test_x, test_y = (drawn.random(shape, np.float32) for shape in ((24, 4), (24, 3), (4, 4), (4, 3)))
    usual = {"epoch": 2, "block_size": 3, "gd_type": "sgd", "gd_params": (0.05,), "verbose": 0, "checkpoint_every": None}
    with tempfile.TemporaryDirectory() as folder, on or parallel_sgd.in_process(2, ps=ps) as nodes:
        job = parallel_sgd.ParallelSGD(model or _model(), nn.dataset.ArrayDataset(x, y, test_x, test_y))
        result = job.parallel(nodes, directory=folder, **{**usual, **options})
    return dict(result), [[value.tolist() for value in each.get_weights()] for _, each in sorted(result.models.items())]


def _model(*layers: nn.layer.Layer, loss: Any = "mse", metric: Any = "mae") -> nn.model.Model:
    model = nn.model.SequentialModel([-1, 4], [*layers, nn.layer.Dense(3)])
    model.setup(loss, metric)
    return model


def _own_model(kind: Kind) -> object:
    model = kind()
    nn.model.Model.setup(model, nn.loss.MSELoss(), nn.metric.MeanAbsoluteError())
    return _job(model)


def _written(kind: Kind) -> object:
    writer = kind()
    return _job(writers=[writer]), len(writer.told)  # of which there are seconds, too


_AVERAGED: dict[str, Any] = {"op_type": "parameteraveraging"}
JOBS: dict[str, Callable[[Kind], object]] = {
    "Codec": lambda kind: _job(codec=kind),
    "Codec on a server": lambda kind: _job(ps=True, codec=OwnWorker, ps_codec=kind),
    "Stage": lambda kind: _job(codec=Codec.of(AllToAll(), up=kind())),
    "MergeRule": lambda kind: _job(codec=Codec.of(AllToAll(), merge=kind())),
    "Trigger": lambda kind: _job(codec=Codec.of(AllToAll(), send="weights", trigger=kind()), **_AVERAGED),
    "LocalRule": lambda kind: _job(codec=Codec.of(AllToAll(), send="weights", local=kind()), **_AVERAGED),
    "Rule": lambda kind: _job(gd_type=kind),
    "Optimizer": lambda kind: _job(op_type=kind),
    "SyncType": lambda kind: _job(sync_type=kind),
    "Assignment": lambda kind: _job(assignment_type=kind),
    "Layer": lambda kind: _job(_model(kind())),
    "Loss": lambda kind: _job(_model(loss=kind())),
    "Metric": lambda kind: _job(_model(metric=kind())),
    "Model": _own_model,
    "Callback": lambda kind: _job(callbacks=[kind()]),
    "Writer": _written,
}


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", JOBS)
def test_common_names_leave_a_job_of_two_workers_as_it_is(kind: str) -> None:
    row = Row(PSGDOptimizer, OwnExchange, JOBS[kind]) if kind == "Optimizer" else ROWS[kind]
    assert not (wrong := _changes(row, JOBS[kind])), wrong


@pytest.mark.processes
def test_common_names_of_a_launcher_leave_a_job_on_its_agents_as_it_is() -> None:
    with parallel_sgd.local_workers(2) as agents:
        run = lambda kind: _job(on=parallel_sgd.nodes_from(kind(agents), 2))  # noqa: E731
        assert not (wrong := _changes(Row(Launcher, OwnAgents, run), run)), wrong


def test_every_kind_of_part_has_a_job() -> None:
    assert {*JOBS, "Launcher"} == {*ROWS}


def _changes(row: Row, run: Callable[[Kind], object]) -> str:
    """Each way in which free names, all at once, change the job, a line for each."""
    free = sorted({*COMMON, *_GENERAL} - {*_names(row)})
    assert len(free) > 250
    expected = repr(run(_derived(row, {})))
    uses = _uses(row, *free)
    return "\n".join(f"{how}: {said}" for how, body, _ in uses if (said := _change(row, run, body, expected)))


def _change(row: Row, run: Callable[[Kind], object], body: dict[str, Any], expected: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", OverrideWarning)
            return "" if repr(run(_derived(row, body))) == expected else "another result, and nothing was said"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

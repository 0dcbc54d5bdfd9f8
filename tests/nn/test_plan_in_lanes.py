"""Plans that compute parts of a batch, in several threads: the results are those of the whole."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import nn
from nn.arrays import Array, Shape
from nn.operation import Mode
from nn.plan import Plan
from nn.random import keyed
from nn.threads import Team
from nn.value import Graph, Placeholder, Value, Variable, VariableStore

FLOAT = np.dtype("float64")


class Heavy(nn.layer.Layer):
    """Branches, a variable used in several places, a sum of a branch over the batch: what cutting a batch must get right."""

    def build(self, input_shape: Shape) -> None:
        self.w = self.add_variable("w", (3, 3))
        self.b = self.add_variable("b", (3,))

    def call(self, x: Value) -> Value:
        left = nn.activation.Tanh()(x @ self.w + self.b)
        right = nn.activation.Sigmoid()(left * x) @ (self.w * 2)
        middle = (right.reshape(-1, 3, 1) * left.reshape(-1, 1, 3)).reshape(-1, 9)
        return middle.reshape(-1, 3, 3) * (left - right).reshape(-1, 3, 1) + self.b


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 5, 8])
def test_in_parts_and_threads_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch, threads: int, batch: int) -> None:
    def run() -> list[Array]:
        x = Placeholder([-1, 3])
        graph = Graph(x, Heavy()(x))
        store = VariableStore(graph.variables, [], FLOAT, 0)
        results = []
        for training in (False, True):
            plan = Plan(graph, (batch, 3), FLOAT, training=training, input_gradient=training, team=Team(threads))
            data = keyed(batch, "test").standard_normal((batch, 3))
            results.append(plan.forward(data, Mode(training=training)).copy())
        for _ in range(2):
            plan.output_gradient[:] = keyed(batch, "weights").standard_normal(plan.output.shape)
            told: list[Variable] = []
            plan.backward(told.append)
            assert [variable.id for variable in told] == [1, 0]
            assert plan.input_gradient is not None
            results += [store.gradients.copy(), plan.input_gradient.copy()]
        return [*results, np.array([max(len(lanes) for lanes in plan._forward), sum(map(len, plan._forward[-1]))])]

    whole = run()
    for name, value in {"LARGE": 1, "REREAD": 0, "PART_BYTES": 200, "LANE_PARTS": 1}.items():
        monkeypatch.setattr(f"nn.plan.stages.{name}", value)
    cut = run()
    for expected, found in zip(whole[:-1], cut[:-1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert cut[-1][0] == min(threads, batch)
    assert batch == 1 or cut[-1][1] > whole[-1][1]


@pytest.mark.parametrize("training", [False, True])
def test_threads_are_shared_out_where_products_can_be_cut_and_else_left_to_the_blas(
    training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    @contextmanager
    def limited() -> Iterator[None]:
        limits.append(1)
        yield

    def lanes(*layers: nn.layer.Layer, shape: Shape) -> list[int]:
        model = nn.model.SequentialModel([-1, *shape], list(layers))
        model.setup(nn.loss.MSELoss())
        found = []
        for team in (Team(1), Team(2)):
            plan = Plan(model.graph, (8, *shape), np.dtype(np.float32), training=training, team=team)
            found.append([plan.forward(keyed(0, "lanes").standard_normal((8, *shape), np.float32), Mode(training=training))])
            if training:
                plan.output_gradient[:] = keyed(1, "lanes").standard_normal(plan.output.shape)
                plan.backward()
                found[-1].append(model.store.gradients.copy())
        for one, two in zip(*found, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-4)
        return [len(stage.lanes) for stage in plan._layout.stages]

    for place in ("plan", "backward"):
        monkeypatch.setattr(f"nn.plan.{place}.limited_to_one_thread", limited)
    monkeypatch.setattr("nn.plan.stages.LARGE", 2000)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 8 * 4 * 1024 * 32)
    monkeypatch.setattr("nn.plan.stages.JOIN", 4)
    # the rectifier could be cut, the products before it are too small for their variables
    assert lanes(nn.layer.Dense(64, activation=nn.activation.ReLU()), shape=(64,)) == [1, 1]
    assert not limits

    def network() -> list[nn.layer.Layer]:
        return [nn.layer.Conv2D(4, [3, 3], padding="same"), nn.layer.Flatten(), nn.layer.Dense(32), nn.layer.Dense(32)]

    # the convolution, a product with many variables, its bias and activation, a product with few, its bias and activation
    assert lanes(*network(), shape=(16, 16, 4)) == [2, 2, 1, 1, 1, 1, 1]
    assert len(limits) > 2 if training else len(limits) == 1
    monkeypatch.setattr("nn.plan.stages.JOIN", 8)  # one lane's share of the batch costs less than its own gradient
    assert lanes(*network(), shape=(16, 16, 4))[1] == (1 if training else 2)


def test_an_error_in_a_thread_reaches_the_caller_after_all_have_ended() -> None:
    ended = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Team(3).run([lambda: ended.append(1), fail, lambda: ended.append(2)])
    with pytest.raises(ValueError, match="no"):
        Team(3).run([fail, lambda: ended.append(3)])
    assert sorted(ended) == [1, 2, 3]


@pytest.mark.parametrize("layer", [nn.layer.LSTM(3, return_sequences=True), nn.layer.GRU(3), nn.layer.BatchNorm()])
def test_slices_of_two_lengths_have_work_space_enough(layer: nn.layer.Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that work in blocks may need more for the shorter slice; the arena would say so."""
    for name, value in {"LARGE": 1, "REREAD": 0, "PART_BYTES": 3000, "LANE_PARTS": 1}.items():
        monkeypatch.setattr(f"nn.plan.stages.{name}", value)
    x = Placeholder([-1, 9, 4])
    graph = Graph(x, layer(x))
    VariableStore([v for v in graph.variables if v.trainable], [v for v in graph.variables if not v.trainable], FLOAT, 0)
    for batch in range(1, 80):
        for training in (False, True):
            plan = Plan(graph, (batch, 9, 4), FLOAT, training=training, team=Team(2))
            plan.forward(np.ones((batch, 9, 4)), Mode(training=training))
            if training:
                plan.output_gradient[:] = 1
                plan.backward()


def test_threads_compute_with_the_settings_of_the_caller() -> None:
    def divide() -> None:
        np.ones(2) / np.zeros(2)

    with np.errstate(all="ignore"):
        Team(3).run([divide, divide, divide])


def test_a_team_works_in_the_child_of_a_fork() -> None:
    team, ran = Team(2), []
    team.run([lambda: None, lambda: ran.append(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # to fork beside threads is what this is about
        child = os.fork()
    if not child:
        team.run([lambda: None, lambda: ran.append(2)])
        os._exit(len(ran))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2

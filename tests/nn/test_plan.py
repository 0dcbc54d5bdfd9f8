"""Plans: values and gradients over flat memory, told as they are complete; in parts and threads they are those of the whole."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

import nn
from nn import function
from nn.activation import ReLU, Sigmoid, Tanh
from nn.arrays import Array, Shape
from nn.layer import GRU, LSTM, AveragePool, BatchNorm, Conv2D, Dense, Flatten, GlobalAveragePool, Layer, MaxPool, SimpleRNN
from nn.operation import MatMul, Mode, Operation
from nn.plan import Plan
from nn.random import keyed
from nn.threads import Team, _Meeting, blas_threads, describe_blas, limited_to_one_thread
from nn.value import Graph, Node, Placeholder, Value, Variable, VariableStore
from tests.kernels import check_products
from tests.nn.graphs import Compiled

FLOAT = np.dtype("float64")
CUT = {"LARGE": 1, "REREAD": 0, "LANE_PARTS": 1}  # limits under which even small batches are cut


class Double(Operation):
    """2 x, and it counts how often it runs; all copies share the counts."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.runs.append("forward")
        np.multiply(inputs[0], 2, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        self.runs.append("backward")
        if wanted[0] is not None:
            np.multiply(gradient, 2, out=wanted[0])


def compiled(x: Placeholder, output: Value, batch: int = 2, training: bool = True, team: Team | None = None) -> Plan:
    assert isinstance(output, Node)
    graph = Graph(x, output)
    new = [variable for variable in graph.variables if not variable.bound]
    VariableStore([v for v in new if v.trainable], [v for v in new if not v.trainable], FLOAT, 0)
    return Plan(graph, [(batch, *x.shape[1:])], FLOAT, training=training, **({"team": team} if team else {}))


def step(plan: Plan, x: Array) -> list[Variable]:
    """Compute the gradients of the sum of all outputs; return the variables in the order in which they are told."""
    told: list[Variable] = []
    plan.forward((x,), Mode(training=True))[0]
    plan.output_gradient[:] = 1
    plan.backward(told.append)
    return told


def test_a_shared_node_is_computed_once_and_gradients_add_up() -> None:
    x, w, double = Placeholder([-1, 3]), Variable([3]), Double()
    shared, data = double(x * w), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    plan = compiled(x, shared * shared + shared)
    value = 2 * data * w.value
    np.testing.assert_allclose(plan.forward((data,), Mode(training=True))[0], value * value + value)
    step(plan, data)
    assert double.runs == ["forward", "forward", "backward"]
    np.testing.assert_allclose(w.gradient, ((2 * value + 1) * 2 * data).sum(axis=0))
    x, w, v = Placeholder([-1, 2]), Variable([2, 2]), Variable([2, 2])
    data, ones = np.array([[1.0, 2.0], [3.0, -1.0]]), np.ones((2, 2))
    step(compiled(x, (x @ w) @ w), data)
    np.testing.assert_allclose(w.gradient, (data @ w.value).T @ ones + data.T @ (ones @ w.value.T))
    x, w = Placeholder([-1, 2]), Variable([2, 2])
    assert step(compiled(x, ((x @ w) @ v) @ w), ones) == [v, w], "a shared variable is told once, after its last use"


def test_gradients_are_told_the_moment_they_are_complete_last_layer_first() -> None:
    x, layers = Placeholder([-1, 3]), [Dense(4, activation=Tanh()), Dense(2)]
    plan = compiled(x, layers[1](layers[0](x)))
    step(plan, np.ones((2, 3)))
    variables = [variable for layer in layers for variable in layer.variables]
    final = {variable.id: variable.get_gradient() for variable in variables}
    for variable in variables:
        variable.gradient[:] = np.nan
    seen: list[int] = []

    def on_gradient(variable: Variable) -> None:
        np.testing.assert_array_equal(variable.gradient, final[variable.id])
        seen.append(variable.id)
        assert variable.id < 2 or np.isnan(layers[0].variables[0].gradient).all()

    plan.backward(on_gradient)
    assert seen == [3, 2, 1, 0]


def test_what_needs_no_gradient_gets_none() -> None:
    """Operations on the input alone, fixed variables; what only a mask depends on has one of zeros, and is told."""
    double, x, w, fixed = Double(), Placeholder([-1, 2]), Variable([2]), Variable([2], trainable=False)
    assert step(compiled(x, double(x) * w * fixed), np.ones((2, 2))) == [w]
    assert double.runs == ["forward"]
    assert w.get_gradient().tolist() == (4 * fixed.value).tolist()
    x, w = Placeholder([-1, 2]), Variable([2])
    assert step(compiled(x, function.concatenate([x, x * w])), np.ones((2, 2))) == [w]
    assert w.get_gradient().tolist() == [2, 2]
    x, w, norm = Placeholder([-1, 3]), Variable([3]), BatchNorm()
    output = x * (norm(x * w) > 0)
    graph = Graph(x, output)
    store = VariableStore(
        [v for v in graph.variables if v.trainable], [v for v in graph.variables if not v.trainable], FLOAT, 0
    )
    store.gradients[:] = store.buffer_changes[:] = np.nan
    assert {variable.id for variable in step(compiled(x, output, 4), np.ones((4, 3)))} == {0, 1, 2}
    assert not store.gradients.any() and not store.buffer_changes.any()


def test_memory_is_shared_only_where_nobody_looks() -> None:
    x, w, b = Placeholder([-1, 3]), Variable([3, 4]), Variable([4])
    score = x @ w + b
    activated = Tanh()(score)
    squared, rows = activated * activated, activated.reshape(-1, 2, 2)
    plan = compiled(x, activated)  # product, sum and tanh in one array
    assert all(np.shares_memory(plan.output, plan._places[node].arrays[0]) for node in (score, activated))
    plan = compiled(x, Sigmoid()(squared))  # a product reads its inputs in backward, so they stay
    assert not np.shares_memory(plan._places[squared].arrays[0], plan._places[activated].arrays[0])
    plan = compiled(x, Sigmoid()(rows))  # a reshape shares also what backward reads, but what follows must not overwrite it
    assert np.shares_memory(plan._places[activated].arrays[0], plan._places[rows].arrays[0])
    assert not np.shares_memory(plan.output, plan._places[rows].arrays[0])


def test_inputs_are_strided_or_a_result_and_never_written_to() -> None:
    x, data = Placeholder([-1, 3]), np.ones((2, 3))
    compiled(x, Tanh()(Flatten()(x)), training=False).forward((data,), Mode())[0]
    assert data.tolist() == [[1, 1, 1], [1, 1, 1]]
    plan = compiled(x, Dense(3, activation=Tanh())(x))
    output = plan.forward((data,), Mode(training=True))[0]
    expected = plan.forward((output.copy(),), Mode(training=True))[0].copy()
    plan.forward((data,), Mode(training=True))[0]
    np.testing.assert_array_equal(plan.forward((output,), Mode(training=True))[0], expected)
    x, w, wide = Placeholder([-1, 2, 2]), Variable([4, 3]), np.arange(32.0).reshape(4, 4, 2)[::2, ::2]
    np.testing.assert_allclose(compiled(x, x.reshape(-1, 4) @ w).forward((wide,), Mode())[0], wide.reshape(2, 4) @ w.value)


def test_very_deep_graphs_work_and_foreign_inputs_are_named() -> None:
    x = Placeholder([-1, 1])
    value: Value = x
    for _ in range(3000):
        value = value + 1
    assert compiled(x, value, batch=1, training=False).forward((np.zeros((1, 1)),), Mode())[0].tolist() == [[3000]]
    with pytest.raises(ValueError, match=r"an input of shape .* that is none of the model's"):
        compiled(Placeholder([-1, 2]), Placeholder([-1, 2]) * 2)


def test_the_first_number_that_is_not_finite_is_named() -> None:
    x, first, second = Placeholder([-1, 2]), Dense(2, name="first"), Dense(2, name="second")
    plan = compiled(x, Tanh()(second(first(x).log())))
    with np.errstate(all="ignore"):
        plan.forward((np.array([[1.0, 1.0], [-9.0, 3.0]]),), Mode(training=True))[0]
    assert plan.first_not_finite() == "the result of Log, behind Dense 'first', in or in front of Dense 'second'"
    first.kernel.value[0, 0] = np.inf
    assert plan.first_not_finite() == "variable 'first/kernel'"


# ---- memory


def everything(x: Value) -> Value:
    """One of each operation, between others, on large arrays."""
    y = function.concatenate([x.exp(), (abs(x) + 1).log(), (x * x + 1).sqrt()], axis=1)
    y = function.maximum(y, x.mean(axis=1, keepdims=True)) - y.max(axis=2, keepdims=True)
    raised = (1 + x.swapaxes(1, 2).sum(axis=(1, 2), keepdims=True)) ** 2
    y = function.where(y > -1, y, y**2) * (y <= 3) + (y * y + 1) ** 1.5 + raised
    attended = y @ y.swapaxes(1, 2)
    return function.minimum(attended[:, 1:, ::2], 5) / 3 - attended[:, :-1, [3, 0] * 15]


def attention(x: Value) -> Value:
    y = nn.layer.Embedding(50, 32)(x)
    y = nn.layer.LayerNorm()(nn.layer.Add()([y, nn.layer.MultiHeadAttention(4, 8, causal=True)(y)]))
    return BatchNorm()(nn.layer.Concatenate()([y, Dense(16)(y)]))


def convolution(x: Value) -> Value:
    y = MaxPool()(Conv2D(16, padding="same", activation=ReLU())(x))
    return Dense(4)(GlobalAveragePool()(AveragePool()(Conv2D(16, activation=ReLU())(y))))


@pytest.mark.parametrize(
    ("build", "shape", "limit"),
    [
        # one result has 327,680 bytes, the weights of the attention 1,638,400; a NumPy function buffers 32,768 for each
        # operand, and `add.at` before 2.3 65,536 for its indices, too
        (attention, (64, 40), 110_000 if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else 140_000),
        # the activations take 5 MB
        (convolution, (64, 24, 24, 1), 150_000),
        # x has 384,000 bytes, a mask 96,000; a NumPy function that converts types buffers 32,768 for each operand
        (everything, (300, 20, 16), 90_000),
        # the output has 163,840 bytes; NumPy takes 8192 elements where it adds a transposed array
        *((kind(64, return_sequences=True), (32, 20, 16), 40_000) for kind in (SimpleRNN, LSTM, GRU)),
    ],
)
def test_after_the_first_step_nothing_is_allocated_that_grows_with_the_batch(
    build: Callable[[Value], Value], shape: tuple[int, ...], limit: int
) -> None:
    generator = keyed(0, "memory")
    x = generator.integers(0, 50, shape) if build is attention else generator.standard_normal(shape)
    peak = Compiled(build, shape[1:], np.float32).peak(x)
    assert peak < limit, f"{peak} bytes"


@pytest.mark.parametrize(("threads", "limit"), [(1, 60_000), (2, 100_000)])
def test_after_the_first_step_nothing_is_allocated_that_grows_with_the_model(
    threads: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: threads)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 128 * 500 * 500 * 4)
    layers = [Dense(500, activation=Tanh()), Dense(500, activation=Tanh()), Dense(10, activation=nn.activation.Softmax())]
    model = nn.model.SequentialModel([-1, 500], layers)
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    x, y, peaks = np.ones((128, 500), np.float32), np.zeros(128, int), []
    for _ in range(3):
        tracemalloc.start()
        model.compute_gradients(x, y)
        assert not list(model.optimizer.finish_batch())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (model.runner.lanes is not None) == (threads == 2)
    # one activation has 128 * 500 * 4 = 256,000 bytes, half of it for each of two threads, one kernel 1,000,000; the buffer of
    # a NumPy function 32,768, in each thread
    assert peaks[2] < limit, f"{peaks} bytes"


# ---- added to what stands there


class Twofold(nn.operation.matmul.MatMul):
    """An operation of a user, which changes what a product has written."""

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        super().backward(inputs, output, gradient, wanted)
        np.multiply(wanted[1], 2, out=wanted[1])


@pytest.fixture(params=["the BLAS of the wheel", "another BLAS", "a wheel without the function"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether products can be added by the BLAS."""
    blas = nn.threads._openblas()
    if request.param == "another BLAS":
        monkeypatch.setattr("nn.threads._openblas", lambda: None)
    elif request.param == "a wheel without the function" and blas is not None:
        monkeypatch.setattr(blas, "products", {"f": None, "d": None})
    nn.operation.matmul._find_sum.cache_clear()
    yield blas is not None and request.param == "the BLAS of the wheel"
    nn.operation.matmul._find_sum.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("batch", "turned"), [(2, False), (64, False), (64, True), (1000, False)])
def test_gradients_are_added_to_those_that_stand_there(batch: int, turned: bool, dtype: str, products: bool) -> None:
    """Each bit as NumPy's sum has it: of what has one writer or two, or none; changes of buffers are written as ever."""
    x, w, b, again, unused = Placeholder([-1, 64]), Variable([64, 96]), Variable([96]), Variable([96, 96]), Variable([3])
    hidden = BatchNorm()(Tanh()(x @ w + b) @ again)
    output = ReLU()(hidden.apply(Twofold(), Variable([96, 64]))) @ Variable([64, 7]) + (hidden @ again)[:, :7]
    graph = Graph(x, output + (unused > 0).sum())
    kinds = [[variable for variable in graph.variables if variable.trainable is trained] for trained in (True, False)]
    store, draw = VariableStore(*kinds, np.dtype(dtype), 0), keyed(0, "sums").standard_normal
    store.values[:] = draw(store.values.size) / 8
    plan = Plan(graph, [(batch, 64)], store.dtype, training=True)
    blocks = [np.array(draw((batch, 64)), dtype, order="F" if turned else "C") for _ in range(2)]

    def run(block: int, add: bool = False) -> tuple[list[Variable], Array, Array]:
        told: list[Variable] = []
        plan.output_gradient[:] = np.cos(plan.forward((blocks[block],), Mode(training=True))[0])
        plan.backward(told.append, add)
        return told, store.gradients.copy(), store.buffer_changes.copy()

    (_, first, _), (told, second, changes) = run(0), run(1)
    assert np.any(changes)
    for _ in range(2):
        run(0)
        again_told, total, found = run(1, add=True)
        assert total.tobytes() == np.add(first, second).tobytes()
        assert again_told == told and found.tobytes() == changes.tobytes()
    shapes = [((batch, 64, 96), True), ((batch, 96, 64), True), ((batch, 64, 7), False)]
    if batch < 1000:  # the BLAS cuts longer products
        for shape, large in shapes:
            assert (nn.operation.matmul._find_sum(*shape, store.dtype) is not None) == (products and large)


# ---- in parts and threads


class Heavy(Layer):
    """Branches, a variable used in several places, a sum of a branch over the batch: what cutting a batch must get right."""

    def build(self, input_shape: Shape) -> None:
        self.w = self.add_variable("w", (3, 3))
        self.b = self.add_variable("b", (3,))

    def call(self, x: Value) -> Value:
        left = Tanh()(x @ self.w + self.b)
        right = Sigmoid()(left * x) @ (self.w * 2)
        middle = (right.reshape(-1, 3, 1) * left.reshape(-1, 1, 3)).reshape(-1, 9)
        return middle.reshape(-1, 3, 3) * (left - right).reshape(-1, 3, 1) + self.b


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 5, 8])
def test_in_parts_and_threads_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch, threads: int, batch: int) -> None:
    def run() -> list[Array]:
        x = Placeholder([-1, 3])
        graph = Graph(x, Heavy()(x))
        store, results = VariableStore(graph.variables, [], FLOAT, 0), []
        for training in (False, True):
            plan = Plan(graph, [(batch, 3)], FLOAT, training=training, input_gradient=training, team=Team(threads))
            results.append(plan.forward((keyed(batch, "test").standard_normal((batch, 3)),), Mode(training=training))[0].copy())
        for add in (False, False, True):
            plan.output_gradient[:] = keyed(batch, "weights").standard_normal(plan.output.shape)
            told: list[Variable] = []
            plan.backward(told.append, add)
            assert [variable.id for variable in told] == [1, 0]
            results += [store.gradients.copy(), plan.input_gradient.copy()]
        assert np.array_equal(results[-2], results[-4] + results[-4])
        return [*results, np.array([max(len(lanes) for lanes in plan._forward), sum(map(len, plan._forward[-1]))])]

    whole = run()
    for name, value in {**CUT, "PART_BYTES": 200}.items():
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

    def lanes(*layers: Layer, shape: Shape) -> list[int]:
        model = nn.model.SequentialModel([-1, *shape], list(layers))
        model.setup(nn.loss.MSELoss())
        found = []
        for team in (Team(1), Team(2)):
            plan = Plan(model.graph, [(8, *shape)], np.dtype(np.float32), training=training, team=team)
            found.append(
                [plan.forward((keyed(0, "lanes").standard_normal((8, *shape), np.float32),), Mode(training=training))[0]]
            )
            if training:
                plan.output_gradient[:] = keyed(1, "lanes").standard_normal(plan.output.shape)
                plan.backward()
                found[-1].append(model.store.gradients.copy())
        for one, two in zip(*found, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-4)
        return [len(stage.lanes) for stage in plan._layout.stages]

    def network() -> list[Layer]:
        return [Conv2D(4, [3, 3], padding="same"), Flatten(), Dense(32), Dense(32)]

    def dense() -> list[Layer]:
        return [Flatten(), Dense(32, activation=ReLU()), Dense(32, activation=Tanh()), Dense(3)]

    for place in ("plan", "backward"):
        monkeypatch.setattr(f"nn.plan.{place}.limited_to_one_thread", limited)
    for name, value in {"LARGE": 2000, "HEAVY": 8 * 4 * 1024 * 32, "JOIN": 4}.items():
        monkeypatch.setattr(f"nn.plan.stages.{name}", value)
    # the rectifier could be cut, the products before it are too small for their variables
    assert lanes(Dense(64, activation=ReLU()), shape=(64,)) == [1, 1]
    assert not limits
    # the convolution, a product with many variables, its bias and activation, a product with few, its bias and activation
    assert lanes(*network(), shape=(16, 16, 4)) == [2, 2, 1, 1, 1, 1, 1]
    assert len(limits) > 2 if training else len(limits) == 1
    # products, biases and activations one after the other, in one stage: the threads part once, and meet once
    assert lanes(*dense(), shape=(16, 16, 4)) == [2]
    monkeypatch.setattr("nn.plan.stages.JOIN", 8)  # samples that a lane must have: else the BLAS makes more of all cores
    assert set(lanes(*dense(), shape=(16, 16, 4))) == {1}
    assert lanes(*network(), shape=(16, 16, 4))[1] == (1 if training else 2)


def on_images(build: Callable[[], list[Layer]], threads: int, training: bool = True) -> tuple[list[int], list[Array]]:
    """Lanes of the stages of layers on eight images, and what two batches give: outputs and gradients of the images."""
    model = nn.model.SequentialModel([-1, 8, 8, 4], build())
    model.setup(nn.loss.MSELoss())
    single = np.dtype(np.float32)
    plan = Plan(model.graph, [(8, 8, 8, 4)], single, training=training, input_gradient=training, team=Team(threads))
    found = []
    for batch in range(2):
        x = keyed(0, "images").standard_normal((8, 8, 8, 4), np.float32)
        found.append(plan.forward((x,), Mode(training=training, key=(3, 0, batch, 0)))[0].copy())
        if training:
            plan.output_gradient[:] = found[-1]
            plan.backward()
            assert plan.input_gradient is not None
            found.append(plan.input_gradient.copy())
    # Once without what is drawn.
    found.append(plan.forward((x,), Mode())[0].copy())
    return [len(stage.lanes) for stage in plan._layout.stages], found


def noise() -> list[Layer]:
    kinds = nn.layer
    return [kinds.GaussianNoise(0.1), kinds.SpatialDropout(0.4), kinds.GaussianDropout(0.2), kinds.Dropout(0.3)]


def test_threads_share_out_what_is_drawn_for_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise stays in the lanes of what is before and behind it, without a meeting of the threads between."""

    def network() -> list[Layer]:
        return [Conv2D(8, [3, 3], padding="same"), *noise(), Conv2D(4, [3, 3]), nn.layer.Dropout(0.5)]

    monkeypatch.setattr("nn.plan.stages.LARGE", 8 * 8 * 8 * 8 * 4)
    monkeypatch.setattr("nn.plan.stages.REREAD", 0)
    (lanes, two), (alone, one) = on_images(network, 2), on_images(network, 1)
    assert lanes == [2]
    assert set(alone) == {1}
    assert len(alone) > 2
    for a, b in zip(one, two, strict=True):
        check_products(b, a)
    # Of equal images, by the draws of another batch.
    assert not np.array_equal(two[0], two[2])


@pytest.mark.parametrize("training", [False, True])
def test_another_shape_of_a_kernel_is_made_before_the_threads_part(monkeypatch: pytest.MonkeyPatch, training: bool) -> None:
    """Between the two products of a separable convolution it would have them meet, and part again."""

    def separable() -> list[Layer]:
        return [nn.layer.SeparableConv2D(8, 3, padding="same"), nn.layer.Activation(nn.activation.Softsign())]

    monkeypatch.setattr("nn.plan.stages.LARGE", 1)
    monkeypatch.setattr("nn.plan.stages.REREAD", 0)
    (alone, one), (lanes, two) = (on_images(separable, threads, training) for threads in (1, 2))
    assert (alone, lanes) == ([1, 1, 1], [1, 1, 2])
    for a, b in zip(one, two, strict=True):
        check_products(b, a)


def test_where_threads_run_at_once_operations_work_in_larger_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each call into NumPy threads meet at the interpreter's lock. What belongs to a sample keeps its bits."""

    def network() -> list[Layer]:
        return [Conv2D(8, [3, 3], padding="same"), nn.layer.LayerNorm(), nn.layer.RMSNorm(), nn.layer.GroupNorm(2), BatchNorm()]

    def blocks(kind: type[Operation]) -> int:
        allocate, counts = kind.allocate, []

        def counted(self: Any, *arguments: Any) -> None:
            allocate(self, *arguments)
            wide = getattr(self, "_wide", None)
            counts.append(len(wide.blocks if wide else getattr(self, "_blocks", None) or self._pieces))

        with monkeypatch.context() as patch:
            patch.setattr(kind, "allocate", counted)
            on_images(network, 2, training=False)
        return counts[-1]

    kinds = (nn.operation.LayerNormalize, nn.operation.RMSNormalize, nn.operation.GroupNormalize, nn.operation.BatchNormalize)
    for name, value in {"ROW_BLOCK": 64, "PIECE": 8 * 8 * 8, "BLOCK": 1024}.items():
        monkeypatch.setattr(f"nn.operation.normalization.{name}", value)
    (alone, one) = on_images(network, 1, training=False)
    # Blocks of eight rows, and of 32; of one sample, and of all four.
    assert [blocks(kind) for kind in kinds] == [8 * 8 * 8 // 8, 8 * 8 * 8 // 8, 8, 4]
    monkeypatch.setattr("nn.plan.stages.LARGE", 1)
    monkeypatch.setattr("nn.plan.stages.REREAD", 0)
    (lanes, two) = on_images(network, 2, training=False)
    assert (alone, lanes) == ([1] * len(alone), [2])
    assert [blocks(kind) for kind in kinds] == [4 * 8 * 8 // 32, 4 * 8 * 8 // 32, 1, 1]
    for a, b in zip(one, two, strict=True):
        check_products(b, a)


def test_threads_share_out_large_results_without_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_sum() -> list[Layer]:
        return [*noise(), nn.layer.LayerNorm()]

    result = 8 * 8 * 8 * 4 * 4
    monkeypatch.setattr("nn.plan.stages.LARGE", result)
    # Bytes of one of two parts of all four results.
    for least, expected in ((2 * result + 1, 1), (2 * result, 2)):
        monkeypatch.setattr("nn.plan.stages.ALONE", least)
        lanes, two = on_images(noise, 2)
        assert set(lanes) == {expected}
        for a, b in zip(on_images(noise, 1)[1], two, strict=True):
            np.testing.assert_array_equal(b, a)
    # A sum over the batch would be that of two parts, with other last bits; so would sums of the BLAS over rows.
    assert set(on_images(with_sum, 2)[0]) == {1}
    assert set(on_images(with_sum, 2, training=False)[0]) == {1}
    assert on_images(noise, 2, training=False)[0] == [2]
    # What flips images calls NumPy often, with the interpreter's lock between.
    assert set(on_images(lambda: [nn.layer.RandomFlip()], 2)[0]) == {1}


def test_an_operation_that_may_prepare_more_than_it_names_sees_the_whole_batch() -> None:
    class Own(nn.operation.GaussianNoiseOperation):
        def begin(self, mode: Mode, position: int) -> None:
            super().begin(mode, position)
            self.more = self._noise * 2

    assert nn.operation.GaussianNoiseOperation.by_sample
    assert not Own.by_sample


class Twice(Layer):
    """One variable in two products, and one in a single one, which follow one another."""

    def build(self, input_shape: Shape) -> None:
        self.w, self.v = self.add_variable("w", (9, 9)), self.add_variable("v", (9, 4))

    def call(self, x: Value) -> Value:
        return Tanh()(x @ self.w) @ self.w @ self.v


@pytest.mark.parametrize("batch", [6, 7])
def test_lanes_share_out_the_gradient_of_a_product_unless_others_add_to_it(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = Placeholder([-1, 9])
    graph = Graph(x, Twice()(x))
    store = VariableStore(graph.variables, [], FLOAT, 0)
    shares: list[tuple[int, int]] = []
    write = MatMul.write_share

    def noted(self: MatMul, index: int, inputs: Any, gradient: Array, target: Array, share: int, count: int) -> None:
        shares.append((target.shape[1], share))
        assert len(inputs[0]) == len(gradient) == batch
        write(self, index, inputs, gradient, target, share, count)

    monkeypatch.setattr(MatMul, "write_share", noted)
    monkeypatch.setattr("nn.plan.stages.HEAVY", batch * 9 * 4 * 8)
    monkeypatch.setattr("nn.plan.stages.JOIN", 2)
    found = []
    for size in (1, 3):
        plan = Plan(graph, [(batch, 9)], FLOAT, training=True, input_gradient=True, team=Team(size))
        assert (plan.lanes is None) == (size == 1)
        for number in range(2):
            plan.forward((keyed(number, "lanes").standard_normal((batch, 9)),), Mode(training=True))[0]
            plan.output_gradient[:] = keyed(number, "weights").standard_normal(plan.output.shape)
            plan.backward()
        assert plan.input_gradient is not None
        found.append([store.gradients.copy(), plan.input_gradient.copy()])
    assert sorted(shares) == [(4, share) for share in (0, 0, 1, 1, 2, 2)]
    for one, three in zip(*found, strict=True):
        np.testing.assert_allclose(three, one, rtol=1e-12, atol=1e-14)


@pytest.mark.share(3)
@pytest.mark.parametrize("layer", [LSTM(3, return_sequences=True), GRU(3), BatchNorm()])
def test_slices_of_two_lengths_have_work_space_enough(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that work in blocks may need more for the shorter slice; the arena would say so."""
    for name, value in {**CUT, "PART_BYTES": 3000}.items():
        monkeypatch.setattr(f"nn.plan.stages.{name}", value)
    x = Placeholder([-1, 9, 4])
    output = layer(x)
    for batch in range(1, 80):
        compiled(x, output, batch, False, Team(2)).forward((np.ones((batch, 9, 4)),), Mode())[0]
        step(compiled(x, output, batch, True, Team(2)), np.ones((batch, 9, 4)))


def test_a_team() -> None:
    """An error in a thread reaches the caller after all have ended; settings are the caller's; a fork's child has one."""
    ended = []

    def fail() -> None:
        raise ValueError("no")

    def divide() -> None:
        np.ones(2) / np.zeros(2)

    for work in ([lambda: ended.append(1), fail, lambda: ended.append(2)], [fail, lambda: ended.append(3)]):
        with pytest.raises(ValueError, match="no"):
            Team(3).run(work)
    assert sorted(ended) == [1, 2, 3]
    with np.errstate(all="ignore"):
        Team(3).run([divide, divide, divide])
    team, ran = Team(2), []
    team.run([lambda: None, lambda: ran.append(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # to fork beside threads is what this is about
        child = os.fork()
    if not child:
        team.run([lambda: None, lambda: ran.append(2)])
        os._exit(len(ran))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_threads_of_a_team_end_with_it_and_ctrl_c_waits_for_them() -> None:
    before, ended = {*threading.enumerate()}, []
    team = Team(3)
    team.run([lambda: None] * 3)
    own = {*threading.enumerate()} - before
    assert len(own) == 2
    held = threading.Event()

    begun = threading.Event()

    def interrupted() -> None:
        assert begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        # Longer than the caller takes to see it: what it waits for has not ended then.
        held.wait(0.3)
        ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        team.run([begun.set, interrupted, lambda: None])
    assert ended == [1]
    team.run([lambda: ended.append(2)] * 3)
    assert ended == [1, 2, 2, 2]
    del team
    # The traceback of the interrupt refers to the team.
    gc.collect()
    for thread in own:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_tasks_of_a_team_that_follow_others_begin_when_all_of_these_have_ended(size: int) -> None:
    team, told = Team(size), list[str]()

    def first(place: int) -> None:
        # The last one is the slowest, and then the first one.
        threading.Event().wait(0.02 * (place if len(told) < 10 else size - place))
        told.append("first")

    for _ in range(6):
        team.run([partial(first, place) for place in range(size)], [partial(told.append, "second")] * size)
    assert told == (["first"] * size + ["second"] * size) * 6
    # Without a wait they come all at once, and all of them go on.
    for _ in range(500):
        team.run([partial(told.append, "first")] * size, [partial(told.append, "second")] * size)
    assert len(told) == 506 * 2 * size


@pytest.mark.parametrize("size", [1, 3])
def test_a_caller_does_something_beside_the_team_once_and_before_it_waits(size: int) -> None:
    team, told, done = Team(size), list[object](), threading.Event()

    def beside() -> None:
        assert not team.busy
        told.append(threading.current_thread())
        done.set()

    def other() -> None:
        # Not before the caller has done the rest: it does not wait for this task first.
        told.append("in time" if done.wait(60) else "too late")

    def work() -> None:
        assert team.busy
        team.run([lambda: told.append("own"), *[other] * (size - 1)])
        team.run([lambda: None] * size)

    team.beside(beside, work)
    assert told == ["own", threading.main_thread(), *["in time"] * (size - 1)]
    assert not team.busy
    # Work that asks nothing of the team: behind it.
    told.clear()
    team.beside(beside, lambda: told.append("work"))
    assert told == ["work", threading.main_thread()]


def test_nothing_is_done_beside_work_that_fails_nor_later() -> None:
    team, told = Team(2), list[int]()

    def failing() -> None:
        raise ValueError("here")

    for work in (failing, lambda: team.run([failing, lambda: None])):
        with pytest.raises(ValueError, match="here"):
            team.beside(partial(told.append, 1), work)
        team.run([lambda: None] * 2)
    assert not told
    # One that fails itself ends the run when all have ended.
    with pytest.raises(ValueError, match="here"):
        team.beside(failing, lambda: team.run([lambda: told.append(2)] * 2))
    assert told == [2, 2]
    assert not team.busy


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_task_of_a_team_follows_one_that_failed(
    failing: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    team, told = Team(3), list[str]()

    def first(place: int) -> None:
        if place == failing:
            raise error
        told.append("first")

    for _ in range(200):
        with pytest.raises(error):
            team.run([partial(first, place) for place in range(3)], [partial(told.append, "second")] * 3)
    assert told == ["first"] * 400
    ended: list[int] = []
    abandoned, abandon = threading.Event(), _Meeting.abandon

    def seen(meeting: _Meeting) -> None:
        abandon(meeting)
        abandoned.set()

    monkeypatch.setattr(_Meeting, "abandon", seen)

    begun = threading.Event()

    def interrupted() -> None:
        assert begun.wait(60)
        # Until the caller, which waits for this one to begin the second task, has seen it: a signal that comes just before the
        # caller blocks is seen when something wakes it.
        while not abandoned.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
            abandoned.wait(1)
        ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        team.run([begun.set, interrupted, lambda: None], [partial(ended.append, 2)] * 3)
    assert ended == [1]


def test_ctrl_c_while_a_team_is_given_its_tasks_leaves_no_thread_waiting() -> None:
    team, told = Team(3), list[int]()
    team.run([lambda: None] * 3)
    given = team._jobs
    assert given is not None

    class Interrupted:
        def put(self, job: Any) -> None:
            given.put(job)
            team._jobs = given
            raise KeyboardInterrupt

    team._jobs = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        team.run([lambda: None] * 3, [partial(told.append, 2)] * 3)
    team.run([partial(told.append, 1)] * 3)
    assert told == [1] * 3


def test_a_team_whose_threads_cannot_start_says_so_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at a limit of processes: no job waits for threads that are not there."""
    team, start, begun = Team(3), threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        begun.append(thread)
        if len(begun) % 2 == 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                team.run([lambda: None] * 3)
        for thread in begun[::2]:
            thread.join(10)
            assert not thread.is_alive()
    ended: list[int] = []
    team.run([lambda: ended.append(1)] * 3)
    assert ended == [1, 1, 1]


def test_a_team_still_works_at_the_end_of_python() -> None:
    text = """
        import atexit
        from nn.threads import Team
        team, told = Team(2), []
        atexit.register(lambda: (team.run([lambda: told.append(1)] * 2), print(len(told))))
        team.run([lambda: None] * 2)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_failed_task_of_a_team_keeps_no_arrays() -> None:
    team = Team(2)

    class Held:
        pass

    def task(held: Held) -> None:
        raise ValueError("bad")

    held = Held()
    seen = weakref.ref(held)
    gc.disable()
    try:
        failed = False
        try:
            team.run([lambda: None, partial(task, held)])
        except ValueError:  # pytest.raises would keep it
            failed = True
        del held
        assert failed
        assert seen() is None
    finally:
        gc.enable()


def test_a_model_may_predict_in_several_threads() -> None:
    model = nn.model.SequentialModel([-1, 50], [Dense(80, Tanh()), Dense(7)])
    model.setup(nn.loss.MSELoss())
    x = keyed(0, "test").standard_normal((64, 50), np.float32)
    expected = [model.predict(sign * x) for sign in (1, -1)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            found = list(pool.map(lambda place: model.predict((1, -1)[place % 2] * x), range(10)))
            assert all(np.array_equal(array, expected[place % 2]) for place, array in enumerate(found))


class Told(nn.optimizer.GDOptimizer):
    """An optimizer of one's own, which notes how many threads the BLAS has for it."""

    seen: ClassVar[list[int]] = []

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        self.seen.append(blas_threads())


def test_a_step_limits_the_blas_once_but_not_for_an_optimizer_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    class Blas:
        threads = 2

        @contextmanager
        def limited(self) -> Iterator[None]:
            limits.append(1)
            token = nn.threads._LIMITED.set(True)
            yield
            nn.threads._LIMITED.reset(token)

    monkeypatch.setattr("nn.threads._openblas", Blas)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 64 * 40 * 40 * 4)
    x = np.ones((64, 40), np.float32)
    for optimizer, expected in ((nn.gradient_descent.SGDOptimizer(0.1), 1), (Told, 2)):
        model = nn.model.SequentialModel([-1, 40], [Dense(40), Dense(40)])
        model.setup(nn.loss.MSELoss())
        model.compile(optimizer if expected == 1 else nn.optimizer.OpContainer(Told, nn.gradient_descent.SGDOptimizer, (0.1,)))
        limits.clear()
        model.fit(x, x, epoch=1, batch_size=64, verbose=0)
        assert model.runner.lanes is not None
        # For one of one's own forward and backward each, as it is called in between.
        assert len(limits) == expected
    assert Told.seen == [2] * 4


def test_a_log_says_which_linear_algebra_computes() -> None:
    """NumPy's version always; kernels and threads where NumPy is a wheel with OpenBLAS, the variable as the process began."""
    text = describe_blas()
    assert text.startswith(f"NumPy {np.__version__}, ")
    assert re.search(r"OpenBLAS kernels \w+, \d+ threads?$|another BLAS", text)
    command = [sys.executable, "-c", "from nn.threads import describe_blas; print(describe_blas())"]
    one = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    text = subprocess.run(command, env=one, capture_output=True, text=True, check=True).stdout
    assert "1 thread" in text or "another BLAS" in text


SEVERAL_THREADS = """
import random, threading
from concurrent.futures import ThreadPoolExecutor
from nn.threads import Team, blas_threads, limited_to_one_thread

def both():
    seen = []
    Team(2).run([lambda: seen.append(blas_threads())] * 2)
    return seen

entered, leave = threading.Barrier(3), threading.Event()

def limited():
    with limited_to_one_thread():
        with limited_to_one_thread():
            pass
        entered.wait(60)
        leave.wait(60)
        return blas_threads(), both()

def hurry(seed):
    draws = random.Random(seed)
    for _ in range(300):
        if draws.random() < 0.5:
            with limited_to_one_thread():
                assert blas_threads() == 1
        assert blas_threads() == 2

print(blas_threads())
if blas_threads() == 2:
    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(limited) for _ in range(2)]
        entered.wait(60)
        print(blas_threads(), both())
        leave.set()
        print(*(thread.result() for thread in threads), blas_threads())
        list(pool.map(hurry, range(4)))
    print(blas_threads())
"""


def test_each_thread_is_told_how_many_threads_the_blas_has_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit holds for who set it and for the team's tasks; others keep the process's number, which comes back in the end."""
    two = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    found = subprocess.run([sys.executable, "-c", SEVERAL_THREADS], env=two, capture_output=True, text=True, check=True).stdout
    assert found in ("1\n", "2\n2 [2, 2]\n(1, [1, 1]) (1, [1, 1]) 2\n2\n"), found
    with limited_to_one_thread():
        assert blas_threads() == 1
        assert "1 thread" in describe_blas() or "another BLAS" in describe_blas()
    monkeypatch.setattr("nn.threads._openblas", lambda: None)
    assert "another BLAS" in describe_blas()
    with limited_to_one_thread():
        assert blas_threads() == 1

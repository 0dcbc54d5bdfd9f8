"""One behaviour suite for every kind of `nn`, over the rows of `nn_rows/`, and no kind without a row."""

import importlib
import inspect
import json
import pkgutil
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
from nn import registry
from nn.arrays import Array
from nn.operation import Mode, Operation
from nn.plan import Plan
from nn.random import keyed
from nn.testing import check_gradients, check_loss_gradient
from nn.threads import Team
from nn.value import Graph, Node, Placeholder, Value, VariableStore
from tests.contract.nn_rows import (
    ACTIVATIONS,
    LAYERS,
    LOSSES,
    METRICS,
    OPERATIONS,
    RULES,
    GraphRow,
    LossRow,
    MetricRow,
    RuleRow,
)
from tests.kernels import check_products

GRAPHS = [*OPERATIONS, *ACTIVATIONS, *LAYERS]
STEPS = 40


def name(row: Any) -> str:
    return f"{row.kind.__name__} {row.label}".strip()


for module in pkgutil.walk_packages(nn.__path__, "nn."):
    importlib.import_module(module.name)  # the packages of nn import what is asked for


def concrete_classes(base: type[Any]) -> Iterator[type[Any]]:
    """Every class of the package below `base` that can be made, in whatever module it is."""
    for found in base.__subclasses__():
        if found.__module__.startswith("nn.") and not inspect.isabstract(found):
            yield found
        yield from concrete_classes(found)


@pytest.mark.parametrize(
    ("base", "rows"),
    [
        (Operation, [*OPERATIONS, *ACTIVATIONS]),
        (nn.layer.Layer, LAYERS),
        (nn.loss.Loss, LOSSES),
        (nn.metric.Metric, METRICS),
        (nn.gradient_descent.IGradientDescent, RULES),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_no_kind_without_a_row(base: type[Any], rows: list[Any]) -> None:
    covered = {row.kind for row in rows}
    missing = sorted(kind.__name__ for kind in set(concrete_classes(base)) - covered)
    assert not missing, (
        f"add a row for {', '.join(missing)} beside those of other kinds of {base.__name__} in tests/contract/nn_rows"
    )


def test_the_walk_finds_classes_of_the_package_that_can_be_made() -> None:
    """The test above can fail."""

    class Base(ABC):
        @abstractmethod
        def run(self) -> None: ...

    class Middle(Base):
        __module__ = "nn.somewhere"

    class Found(Middle):
        __module__ = "nn.somewhere.found"

        def run(self) -> None: ...

    class Users(Found):
        __module__ = "elsewhere"

    assert set(concrete_classes(Base)) == {Found}
    assert issubclass(Users, Base)


@pytest.mark.parametrize("row", GRAPHS, ids=name)
def test_gradients(row: GraphRow) -> None:
    check_gradients(row.applied(), row.sample, draw=row.draw)


@pytest.mark.share(2)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("row", [row for row in GRAPHS if row.value is not None], ids=name)
def test_values(row: GraphRow, training: bool) -> None:
    placeholder = Placeholder((-1, *row.sample))
    output = row.applied()(placeholder)
    assert isinstance(output, Node)
    graph = Graph(placeholder, output)
    dtype = np.dtype(np.float64)
    if graph.variables:
        VariableStore(graph.variables, [], dtype, 3)
    x = row.draw(keyed(0, "values"), (5, *row.sample))
    result = Plan(graph, [x.shape], dtype, training=training).forward((x,), Mode(training=training))[0]
    assert row.value is not None
    np.testing.assert_allclose(result, row.value(x, *(variable.value for variable in graph.variables)), rtol=1e-12, atol=1e-13)
    assert output.shape == (-1, *result.shape[1:])


@pytest.mark.share(2)
@pytest.mark.parametrize("row", [*ACTIVATIONS, *LAYERS], ids=name)
def test_after_a_row_like_any_other(row: GraphRow) -> None:
    """In place or not, between other operations the gradients stay right."""
    build = row.applied()

    def between(x: Value) -> Value:
        inner = build(x * x + 0.5)
        return inner * inner

    check_gradients(between, row.sample, draw=row.draw)


@pytest.fixture(scope="module")
def two() -> Team:
    """Two threads that run already."""
    team = Team(2)
    team.run([lambda: None, lambda: None])
    return team


class Run(NamedTuple):
    """What a plan computes: values with a row for each sample, and those that are sums over the batch."""

    rows: list[Array]
    sums: list[Array]


def run(row: GraphRow, training: bool, team: Team, dtype: type[Any] = np.float64, batch: int = 5) -> Run:
    placeholder = Placeholder((-1, *row.sample))
    output = row.applied()(placeholder)
    assert isinstance(output, Node)
    graph = Graph(placeholder, output)
    trained = [variable for variable in graph.variables if variable.trainable]
    store = VariableStore(trained, [v for v in graph.variables if v not in trained], np.dtype(dtype), 3)
    x = row.draw(keyed(0, "parts"), (batch, *row.sample)).astype(dtype)
    plan = Plan(graph, [x.shape], store.dtype, training=training, input_gradient=training, team=team)
    found = Run([plan.forward((x,), Mode(training=training))[0].copy()], [])
    if training:
        plan.output_gradient[:] = keyed(1, "parts").standard_normal(plan.output.shape)
        plan.backward()
        assert plan.input_gradient is not None
        found.rows.append(plan.input_gradient)
        found.sums.extend([store.gradients, store.buffer_changes])
    return found


@pytest.mark.parametrize("row", GRAPHS, ids=name)
@pytest.mark.share(4)
def test_in_parts_of_the_batch_nothing_changes(row: GraphRow, monkeypatch: pytest.MonkeyPatch, two: Team) -> None:
    """An operation that says it splits may be run on slices of the batch, in inference and in training."""
    whole = [run(row, training, two) for training in (False, True)]
    for constant, value in {"LARGE": 1, "REREAD": 0, "PART_BYTES": 1, "LANE_PARTS": 1}.items():
        monkeypatch.setattr(f"nn.plan.stages.{constant}", value)
    monkeypatch.setattr(Operation, "multiplies", True)  # else an operation is given to several threads only beside a product
    for expected, found in zip(whole, [run(row, training, two) for training in (False, True)], strict=True):
        for a, b in zip([*expected.rows, *expected.sums], [*found.rows, *found.sums], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("beside", ["products", "none"])
@pytest.mark.parametrize("row", [row for row in GRAPHS if row.kind is not nn.operation.CachedAttention], ids=name)
@pytest.mark.share(4)
def test_two_threads_give_the_bits_of_one(row: GraphRow, beside: str, monkeypatch: pytest.MonkeyPatch, two: Team) -> None:
    """Halves of eight samples have the bits of the whole; so have sums over the batch, except beside a product.

    Of products on kernels whose rows depend on the number of rows the halves are close to the whole.
    """
    for constant, value in {"LARGE": 1, "ALONE": 1, "REREAD": 0}.items():
        monkeypatch.setattr(f"nn.plan.stages.{constant}", value)
    if beside == "products":
        monkeypatch.setattr(Operation, "multiplies", True)
    placeholder = Placeholder((-1, *row.sample))
    output = row.applied()(placeholder)
    assert isinstance(output, Node)
    nodes = Graph(placeholder, output).nodes
    products = any(node.operation.multiplies for node in nodes)
    # Through a sum over the batch the input's gradient depends on it, too.
    through = any(isinstance(each, Node) and each.shape[:1] != (-1,) for node in nodes for each in node.inputs)
    for training in (False, True):
        one, both = (run(row, training, team, np.float32, 16) for team in (Team(1), two))
        equal = [*zip(one.rows, both.rows, strict=True)][: 1 if products and through else None]
        for a, b in [*equal, *(() if products else zip(one.sums, both.sums, strict=True))]:
            (check_products if products else np.testing.assert_array_equal)(b, a)


@pytest.mark.parametrize("row", LOSSES, ids=name)
@pytest.mark.parametrize("samples", [1, 5])
def test_loss_values_and_gradients(row: LossRow, samples: int) -> None:
    label, output = row.sample(keyed(0, "loss"), samples)
    check_loss_gradient(row.build(), label, output)
    loss = row.build()
    prepared = loss.prepare(label, output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    assert loss.value(prepared, output) == pytest.approx(row.value(label, output), rel=1e-12)


@pytest.mark.parametrize("row", METRICS, ids=name)
def test_metrics_are_exact_over_batches_of_any_size(row: MetricRow) -> None:
    label, prediction = row.sample(keyed(0, "metric"), 50)
    expected = row.value(label, prediction)
    metric = row.build()
    assert np.isnan(metric.result())
    for sizes in ([50], [1, 7, 42], [49, 1]):
        metric.reset()
        start = 0
        for size in sizes:
            metric.update(label[start : start + size], prediction[start : start + size])
            start += size
        assert metric.result() == pytest.approx(expected, rel=1e-12)
        assert type(metric.result()) is float


@pytest.mark.share(2)
@pytest.mark.parametrize("row", RULES, ids=name)
@pytest.mark.parametrize("length", [3, 40_000])
def test_rules_follow_their_formula(row: RuleRow, length: int) -> None:
    """Also over the border of a chunk."""
    gradients = list(keyed(0, "rule").standard_normal((STEPS, length)))
    start = keyed(1, "rule").standard_normal(length)
    parameters, rule = start.copy(), row.build(length)
    for gradient in gradients:
        rule.update(parameters, gradient)
    np.testing.assert_allclose(parameters, row.formula(start, gradients), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("row", [row for row in RULES if row.build().elementwise], ids=name)
def test_rules_that_are_elementwise_work_on_parts_of_the_vector(row: RuleRow) -> None:
    gradients = keyed(0, "rule").standard_normal((5, 40_000)).astype(np.float32)
    whole, parts = np.ones(40_000, np.float32), np.ones(40_000, np.float32)
    rule, shards = row.build(), [(row.build(), slice(0, 101)), (row.build(), slice(101, 40_000))]
    for gradient in gradients:
        rule.update(whole, gradient)
        for own, shard in shards:
            own.update(parts[shard], gradient[shard])
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("row", RULES, ids=name)
def test_delta_is_what_update_adds(row: RuleRow) -> None:
    gradients = keyed(0, "rule").standard_normal((5, 40_000)).astype(np.float32)
    untouched = gradients.copy()
    updated, added = np.ones(40_000, np.float32), np.ones(40_000, np.float32)
    first, second = row.build(40_000), row.build(40_000)
    for gradient in gradients:
        first.update(updated, gradient)
        before, change = added.copy(), np.empty_like(added)
        second.write_change(added, gradient, change)
        assert np.array_equal(added, before)
        added += change
        assert np.array_equal(updated, added)
    assert np.array_equal(gradients, untouched)


@pytest.mark.parametrize("row", RULES, ids=name)
def test_rules_allocate_nothing_after_the_first_step(row: RuleRow) -> None:
    length = 400_000
    parameters, gradient = np.ones(length, np.float32), np.ones(length, np.float32)
    rule = row.build(length)
    rule.update(parameters, gradient)
    tracemalloc.start()
    try:
        rule.update(parameters, gradient)
        assert tracemalloc.get_traced_memory()[1] < length
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("row", RULES, ids=name)
def test_a_restored_rule_goes_on_bit_for_bit(row: RuleRow) -> None:
    gradients = keyed(0, "rule").standard_normal((6, 100)).astype(np.float32)
    straight, resumed = np.ones(100, np.float32), np.ones(100, np.float32)
    rule, first, second = row.build(100), row.build(100), row.build(100)
    for gradient in gradients:
        rule.update(straight, gradient)
    for gradient in gradients[:3]:
        first.update(resumed, gradient)
    second.load_state_dict(first.state_dict())
    first.update(resumed.copy(), gradients[0])  # the state is a copy: what the other does meanwhile changes nothing
    for gradient in gradients[3:]:
        second.update(resumed, gradient)
    assert np.array_equal(straight, resumed)


@pytest.mark.parametrize("row", RULES, ids=name)
def test_a_rule_refuses_what_does_not_fit(row: RuleRow) -> None:
    kind = row.kind.__name__
    with pytest.raises(ValueError, match=rf"{kind} takes two vectors of equal length, got shapes \(3,\) and \(4,\)"):
        row.build(3).update(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match=f"{kind} state must hold step"):
        row.build().load_state_dict({"something": 1})


@pytest.mark.parametrize("row", [*ACTIVATIONS, *LAYERS, *LOSSES, *METRICS, *RULES], ids=name)
def test_a_description_builds_an_equal_object(row: Any) -> None:
    made = row.build()
    described = json.loads(json.dumps(registry.describe(made)))
    again = registry.build(described, row.kind, {})
    assert type(again) is type(made)
    assert registry.describe(again) == described
    assert repr(again) == repr(made)

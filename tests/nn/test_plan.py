import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nn
from nn.arrays import Array, Shape
from nn.operation import Mode, Operation
from nn.plan import Plan
from nn.random import keyed
from nn.value import Graph, Node, Placeholder, Value, Variable, VariableStore

FLOAT = np.dtype("float64")


class Double(Operation):
    """2 x, and it counts how often it runs; all copies share the counts."""

    def __init__(self) -> None:
        self.forwards: list[int] = []
        self.backwards: list[int] = []

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.forwards.append(1)
        np.multiply(inputs[0], 2, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        self.backwards.append(1)
        if wanted[0] is not None:
            np.multiply(gradient, 2, out=wanted[0])


def compiled(x: Placeholder, output: Value, batch: int = 2, training: bool = True) -> Plan:
    assert isinstance(output, Node)
    graph = Graph(x, output)
    variables = [variable for variable in graph.variables if not variable.bound]
    if variables:
        VariableStore(variables, [], FLOAT, 0)
    return Plan(graph, (batch, *x.shape[1:]), FLOAT, training=training)


def test_a_shared_node_is_computed_once_and_its_gradients_add_up() -> None:
    x, w, double = Placeholder([-1, 3]), Variable([3]), Double()
    shared = double(x * w)
    plan = compiled(x, shared * shared + shared)
    data = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    value = 2 * data * w.value
    np.testing.assert_allclose(plan.forward(data, Mode(training=True)), value * value + value)
    plan.output_gradient[:] = 1
    plan.backward()
    assert (len(double.forwards), len(double.backwards)) == (1, 1)
    np.testing.assert_allclose(w.gradient, ((2 * value + 1) * 2 * data).sum(axis=0))


def test_a_variable_used_twice_gets_the_sum() -> None:
    x, w = Placeholder([-1, 2]), Variable([2, 2])
    plan = compiled(x, (x @ w) @ w)
    data = np.array([[1.0, 2.0], [3.0, -1.0]])
    plan.forward(data, Mode(training=True))
    plan.output_gradient[:] = 1
    plan.backward()
    ones = np.ones((2, 2))
    np.testing.assert_allclose(w.gradient, (data @ w.value).T @ ones + data.T @ (ones @ w.value.T))


def test_gradients_are_told_the_moment_they_are_complete_last_layer_first() -> None:
    x = Placeholder([-1, 3])
    layers = [nn.layer.Dense(4, activation=nn.activation.Tanh()), nn.layer.Dense(2)]
    plan = compiled(x, layers[1](layers[0](x)))
    plan.forward(np.ones((2, 3)), Mode(training=True))
    plan.output_gradient[:] = 1
    plan.backward()
    final = {variable.id: variable.get_gradient() for layer in layers for variable in layer.variables}
    for layer in layers:
        for variable in layer.variables:
            variable.gradient[:] = np.nan
    seen: list[int] = []

    def on_gradient(variable: Variable) -> None:
        np.testing.assert_array_equal(variable.gradient, final[variable.id])
        seen.append(variable.id)
        if variable.id >= 2:
            assert np.isnan(layers[0].variables[0].gradient).all()

    plan.backward(on_gradient)
    assert seen == [3, 2, 1, 0]


def test_a_shared_variable_is_told_once_after_its_last_use() -> None:
    x, w, v = Placeholder([-1, 2]), Variable([2, 2]), Variable([2, 2])
    plan = compiled(x, ((x @ w) @ v) @ w)
    plan.forward(np.ones((2, 2)), Mode(training=True))
    plan.output_gradient[:] = 1
    seen: list[Variable] = []
    plan.backward(seen.append)
    assert seen == [v, w]


def test_what_needs_no_gradient_gets_none() -> None:
    double, x, w = Double(), Placeholder([-1, 2]), Variable([2])
    plan = compiled(x, double(x) * w)
    plan.forward(np.ones((2, 2)), Mode(training=True))
    plan.output_gradient[:] = 1
    plan.backward()
    assert len(double.forwards) == 1
    assert not double.backwards
    assert w.get_gradient().tolist() == [4, 4]


def test_a_fixed_variable_gets_no_gradient() -> None:
    x, w, fixed = Placeholder([-1, 2]), Variable([2]), Variable([2], trainable=False)
    output = x * w * fixed
    VariableStore([w], [fixed], FLOAT, 0)
    seen: list[Variable] = []
    plan = compiled(x, output)
    plan.forward(np.ones((2, 2)), Mode(training=True))
    plan.output_gradient[:] = 1
    plan.backward(seen.append)
    assert seen == [w]


def test_operations_in_place_share_memory_only_where_nobody_looks() -> None:
    x, w, b = Placeholder([-1, 3]), Variable([3, 4]), Variable([4])
    score = x @ w + b
    activated = nn.activation.Tanh()(score)
    plan = compiled(x, activated)
    assert plan.output is not None
    # product, sum and tanh in one array
    assert all(np.shares_memory(plan.output, plan._places[node].arrays[0]) for node in (score, activated))

    squared = activated * activated
    plan = compiled(x, nn.activation.Sigmoid()(squared))
    # a product reads its inputs in backward, so they stay
    assert not np.shares_memory(plan._places[squared].arrays[0], plan._places[activated].arrays[0])


def test_the_input_is_never_written_to() -> None:
    x = Placeholder([-1, 3])
    plan = compiled(x, nn.activation.Tanh()(nn.layer.Flatten()(x)), training=False)
    data = np.ones((2, 3))
    plan.forward(data, Mode())
    assert data.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_strided_and_foreign_memory_is_accepted_as_input() -> None:
    x, w = Placeholder([-1, 2, 2]), Variable([4, 3])
    plan = compiled(x, x.reshape(-1, 4) @ w)
    wide = np.arange(32.0).reshape(4, 4, 2)[::2, ::2]
    np.testing.assert_allclose(plan.forward(wide, Mode()), wide.reshape(2, 4) @ w.value)


def test_very_deep_graphs_work() -> None:
    x = Placeholder([-1, 1])
    value: Value = x
    for _ in range(3000):
        value = value + 1
    assert compiled(x, value, batch=1, training=False).forward(np.zeros((1, 1)), Mode()).tolist() == [[3000]]


def test_after_the_first_step_nothing_is_allocated_that_grows_with_the_model() -> None:
    model = nn.model.SequentialModel([-1, 300])
    for _ in range(2):
        model.add(nn.layer.Dense(300, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    x, y = np.ones((128, 300), np.float32), np.zeros(128, int)

    def step() -> None:
        model.compute_gradients(x, y)
        assert not list(model.optimizer.finish_batch())

    step()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # one activation has 128 * 300 * 4 = 153,600 bytes, one kernel 360,000; the buffer of a NumPy function 32,768
    assert peak < 60_000, f"{peak} bytes"


def test_an_input_of_another_model_is_named() -> None:
    with pytest.raises(ValueError, match="an input that belongs to another model"):
        compiled(Placeholder([-1, 2]), Placeholder([-1, 2]) * 2)


def test_the_first_number_that_is_not_finite_is_named() -> None:
    x = Placeholder([-1, 2])
    first, second = nn.layer.Dense(2, name="first"), nn.layer.Dense(2, name="second")
    plan = compiled(x, nn.activation.Tanh()(second(first(x).log())))
    with np.errstate(all="ignore"):
        plan.forward(np.array([[1.0, 1.0], [-9.0, 3.0]]), Mode(training=True))
    assert plan.first_not_finite() == "the result of Log, behind Dense 'first', in or in front of Dense 'second'"
    first.kernel.value[0, 0] = np.inf
    assert plan.first_not_finite() == "variable 'first/kernel'"


def test_a_reshape_shares_memory_also_where_backward_reads_it() -> None:
    x, w = Placeholder([-1, 4]), Variable([4, 4])
    activated = nn.activation.Tanh()(x @ w)
    rows = activated.reshape(-1, 2, 2)
    plan = compiled(x, nn.activation.Sigmoid()(rows))
    assert np.shares_memory(plan._places[activated].arrays[0], plan._places[rows].arrays[0])
    # but what follows must not overwrite it, for the tangent's derivative reads it
    assert not np.shares_memory(plan.output, plan._places[rows].arrays[0])


def test_a_result_may_be_given_back_as_input() -> None:
    x = Placeholder([-1, 3])
    plan = compiled(x, nn.layer.Dense(3, activation=nn.activation.Tanh())(x))
    output = plan.forward(np.ones((2, 3)), Mode(training=True))
    expected = plan.forward(output.copy(), Mode(training=True)).copy()
    plan.forward(np.ones((2, 3)), Mode(training=True))
    np.testing.assert_array_equal(plan.forward(output, Mode(training=True)), expected)


def test_what_only_a_mask_depends_on_has_no_gradient_and_is_told() -> None:
    x, w = Placeholder([-1, 3]), Variable([3])
    norm = nn.layer.BatchNorm()
    output = x * (norm(x * w) > 0)
    assert isinstance(output, Node)
    graph = Graph(x, output)
    store = VariableStore(
        [v for v in graph.variables if v.trainable], [v for v in graph.variables if not v.trainable], FLOAT, 0
    )
    store.gradients[:] = store.buffer_changes[:] = np.nan
    plan = Plan(graph, (4, 3), FLOAT, training=True)
    plan.forward(np.ones((4, 3)), Mode(training=True))
    plan.output_gradient[:] = 1
    told: list[Variable] = []
    plan.backward(told.append)
    assert {variable.id for variable in told} == {0, 1, 2}
    assert not store.gradients.any()
    assert not store.buffer_changes.any()


def test_a_model_may_predict_in_several_threads() -> None:
    model = nn.model.SequentialModel([-1, 50], [nn.layer.Dense(80, nn.activation.Tanh()), nn.layer.Dense(7)])
    model.setup(nn.loss.MSELoss())
    x = keyed(0, "test").standard_normal((64, 50), np.float32)
    expected = [model.predict(sign * x) for sign in (1, -1)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            found = list(pool.map(lambda place: model.predict((1, -1)[place % 2] * x), range(10)))
            assert all(np.array_equal(array, expected[place % 2]) for place, array in enumerate(found))

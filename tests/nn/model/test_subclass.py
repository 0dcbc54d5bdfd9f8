import numpy as np
import pytest

import nn
from nn.value import Value, Variable
from tests.nn.model.models import Line


def test_linear_regression_by_operators_trains() -> None:
    model = Line()
    model.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError())
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    x = np.linspace(-1, 1, 200).reshape(-1, 1)
    model.fit(x, 3 * x - 2, epoch=60, batch_size=20, verbose=0)
    assert model.w.get_value().item() == pytest.approx(3, abs=1e-3)
    assert model.b.get_value().item() == pytest.approx(-2, abs=1e-3)
    assert model.evaluate(x, 3 * x - 2)["mse"] < 1e-5
    assert [(variable.id, variable.name) for variable in model.trainable_variables()] == [(0, "w"), (1, "b")]
    assert "w (Variable)" in model.summary()


class Twins(nn.model.Model):
    """Two inputs' halves through one shared layer, and variables in a list."""

    def __init__(self) -> None:
        super().__init__(input_shape=[-1, 4])
        self.shared = nn.layer.Dense(4, activation=nn.activation.Tanh())
        self.scales = [Variable([4]), Variable([4])]
        self.order = [1, 0]

    def call(self, x: Value) -> Value:
        return self.shared(x * self.scales[0]) + self.shared(self.shared(x) * self.scales[1])

    def trainable_variables(self) -> list[Variable]:
        return [*self.shared.variables, *(self.scales[place] for place in self.order)]


def test_trainable_variables_decides_the_order_of_ids() -> None:
    model = Twins()
    model.setup(nn.loss.MSELoss())
    assert [variable.id for variable in model.store.variables] == [0, 1, 2, 3]
    assert model.store.variables == [*model.shared.variables, model.scales[1], model.scales[0]]
    assert [variable.name for variable in model.store.variables[:2]] == ["dense_1/kernel", "dense_1/bias"]


def test_a_variable_left_out_is_not_trained_but_saved() -> None:
    class Frozen(Line):
        def trainable_variables(self) -> list[Variable]:
            return [self.b]

    model = Frozen()
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.SGDOptimizer)
    x = np.ones((4, 1))
    model.compute_gradients(x, x)
    before = model.w.get_value()
    model.fit(x, 5 * x, epoch=2, verbose=0)
    assert np.array_equal(model.w.get_value(), before)
    assert model.store.values.size == 1
    again = nn.model.Model.from_bytes(model.to_bytes(), {"Frozen": Frozen})
    assert np.array_equal(again.predict(x), model.predict(x))


def test_variables_that_call_does_not_use_are_refused() -> None:
    class Wrong(Line):
        def trainable_variables(self) -> list[Variable]:
            return [self.w, self.b, Variable([1], name="stray")]

    model = Wrong()
    model.setup(nn.loss.MSELoss())
    with pytest.raises(ValueError, match=r"must return different trainable variables that call\(\) uses, got 'stray'"):
        model.predict(np.ones((1, 1)))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda x: None, r"call\(\) must return one output per sample, \(-1, ...\), got NoneType"),
        (lambda x: x, r"got shape \(-1, 2\)"),
        (lambda x: np.ones((3, 5)) @ Variable([5, 2]), r"got shape \(3, 2\)"),
    ],
)
def test_call_must_return_one_output_per_sample(output: object, message: str) -> None:
    class Odd(nn.model.Model):
        def call(self, x: Value) -> Value:
            return output(x)  # type: ignore[operator,no-any-return]

    with pytest.raises(ValueError, match=message):
        Odd(input_shape=[-1, 2]).setup(nn.loss.MSELoss())


def test_an_output_that_mixes_samples_is_refused_when_data_comes() -> None:
    class Mixed(nn.model.Model):
        def call(self, x: Value) -> Value:
            return x.reshape(-1, 1) * Variable([1])

    model = Mixed(input_shape=[-1, 2])
    model.setup(nn.loss.MSELoss())
    with pytest.raises(ValueError, match="must give one output per sample"):
        model.compute_gradients(np.ones((3, 2)), np.ones((3, 1)))


def test_two_variables_of_one_name_are_refused() -> None:
    class Same(nn.model.Model):
        def call(self, x: Value) -> Value:
            return x * Variable([1], name="w") + Variable([1], name="w")

    with pytest.raises(ValueError, match="2 variables are named 'w'"):
        Same(input_shape=[-1, 2]).setup(nn.loss.MSELoss())


def test_unnamed_variables_are_numbered() -> None:
    class Anonymous(nn.model.Model):
        def call(self, x: Value) -> Value:
            return x * Variable([1]) + Variable([1])

    model = Anonymous(input_shape=[-1, 2])
    model.setup(nn.loss.MSELoss())
    assert [variable.name for variable in model.trainable_variables()] == ["variable_1", "variable_2"]


def test_layers_are_named_in_the_order_of_their_first_calls() -> None:
    class Branches(nn.model.Model):
        def call(self, x: Value) -> Value:
            branch = nn.layer.Dense(2)(nn.layer.Dense(3)(x))
            return nn.layer.Add()([nn.layer.Dense(2)(x), branch])

    model = Branches([-1, 4])
    model.setup(nn.loss.MSELoss())
    shapes = {variable.name: variable.shape for variable in model.trainable_variables()}
    assert [shapes[f"dense_{number}/kernel"] for number in (1, 2, 3)] == [(4, 3), (3, 2), (4, 2)]


def test_a_forgotten_return_is_told() -> None:
    class Nothing(nn.layer.Layer):
        def call(self, x: Value) -> Value:  # type: ignore[return]
            """Forget to return."""

    with pytest.raises(TypeError, match=r"Nothing 'nothing_1': call\(\) must return a value of the graph, got NoneType; is a"):
        nn.model.SequentialModel([-1, 2], [Nothing()]).setup(nn.loss.MSELoss())

    class Nowhere(nn.model.Model):
        def call(self, x: Value) -> Value:  # type: ignore[return]
            """Forget to return."""

    with pytest.raises(ValueError, match=r"Nowhere.call\(\) must return .*, got NoneType; is a 'return' missing\?"):
        Nowhere([-1, 2]).setup(nn.loss.MSELoss())


def test_a_forgotten_constructor_is_told() -> None:
    class Lazy(nn.layer.Layer):
        def __init__(self) -> None:
            """Forget the base class."""

        def call(self, x: Value) -> Value:
            return x

    with pytest.raises(TypeError, match=r"Lazy.__init__\(\) must call super\(\).__init__\(\)"):
        Lazy()

    class Idle(Line):
        def __init__(self) -> None:
            """Forget the base class."""

    message = r"Idle.__init__\(\) must call super\(\).__init__\(\)"
    with pytest.raises(TypeError, match=message):
        Idle().setup(nn.loss.MSELoss())
    with pytest.raises(TypeError, match=message):
        Idle().compile(nn.gradient_descent.SGDOptimizer)

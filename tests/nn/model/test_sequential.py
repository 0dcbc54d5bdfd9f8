import numpy as np
import pytest

import nn
from tests.nn.model.models import classifier, samples


def test_variables_exist_after_setup_in_order_with_names_and_ids() -> None:
    model = classifier()
    variables = model.trainable_variables()
    assert [(variable.id, variable.name, variable.shape) for variable in variables] == [
        (0, "dense_1/kernel", (8, 16)),
        (1, "dense_1/bias", (16,)),
        (2, "dense_2/kernel", (16, 3)),
        (3, "dense_2/bias", (3,)),
    ]
    assert model.store.variables == variables
    for variable in variables:
        assert np.shares_memory(variable.value, model.store.values)
        assert np.shares_memory(variable.gradient, model.store.gradients)


def test_equal_seeds_start_equal() -> None:
    first, again, other = (classifier(seed=seed).store.values for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_names_given_by_the_user_are_kept_and_must_differ() -> None:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(2, name="dense_1"), nn.layer.Dense(2), nn.layer.Dense(2)])
    model.setup(nn.loss.MSELoss())
    assert [layer.name for layer in model.layers] == ["dense_1", "dense_2", "dense_3"]
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(2, name="a"), nn.layer.Dense(2, name="a")])
    with pytest.raises(ValueError, match="2 layers are named 'a'; names must differ within a model"):
        model.setup(nn.loss.MSELoss())


def test_predictions_are_probabilities_although_the_loss_contains_the_softmax() -> None:
    model, (x, y) = classifier(), samples()
    kernel, bias, head, shift = (variable.get_value() for variable in model.trainable_variables())
    score = np.tanh(x @ kernel + bias) @ head + shift
    expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-5)
    np.testing.assert_allclose(model.compute_gradients(x, y)[1], expected, rtol=1e-5)
    assert model.predict(x).dtype == np.float32


def test_a_model_that_ends_in_scores_learns_the_same() -> None:
    x, y = samples()
    gradients = []
    for activation in (nn.activation.Softmax(), nn.activation.Linear()):
        model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(3, activation=activation)])
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
        gradients.append((model.compute_gradients(x, y)[0], model.store.gradients.copy()))
    assert gradients[0][0] == gradients[1][0]
    assert np.array_equal(gradients[0][1], gradients[1][1])


def test_softmax_alone_is_a_model_too() -> None:
    model = nn.model.SequentialModel([-1, 3], [nn.layer.Dense(3), Only()])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    assert model.compute_gradients(np.zeros((1, 3)), [1])[1].sum() == pytest.approx(1)


class Only(nn.layer.Layer):
    def call(self, x: nn.Value) -> nn.Value:
        return nn.activation.Softmax()(x)


def test_float64_on_request() -> None:
    model, (x, y) = classifier(dtype="float64"), samples()
    assert model.store.values.dtype == model.predict(x).dtype == np.float64
    model.fit(x, y, epoch=1, verbose=0)
    assert model.store.values.dtype == np.float64
    with pytest.raises(ValueError, match="'dtype' must be float32 or float64, got int32"):
        nn.model.SequentialModel([-1, 2], dtype="int32")


def test_the_input_shape_may_come_with_the_data() -> None:
    x, y = samples()
    model = nn.model.SequentialModel(layers=[nn.layer.Dense(3, activation=nn.activation.Softmax())])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    assert not model.built
    with pytest.raises(
        ValueError, match="SequentialModel is not built yet; without an input_shape it is built from the first data"
    ):
        model.summary()
    model.evaluate(x, y)
    assert model.input_shape == (-1, 8)
    assert len(model.trainable_variables()) == 2


def test_a_second_setup_keeps_the_weights() -> None:
    model, (x, y) = classifier(), samples()
    model.fit(x, y, epoch=1, verbose=0)
    weights = model.store.values.copy()
    model.setup(nn.loss.MSELoss())
    assert np.array_equal(model.store.values, weights)
    assert set(model.evaluate(x, np.eye(3)[y])) == {"Loss"}


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed; its text is returned, which an interpreter or a notebook does not show again."""
    text = classifier(dropout=0.5).summary()
    assert capsys.readouterr().out == f"{text}\n"
    assert repr(text) == "<summary of SequentialModel>"
    lines = text.splitlines()
    assert lines[0] == "SequentialModel"
    assert "dense_1 (Dense)      (-1, 16)             144" in lines
    assert "dropout_1 (Dropout)  (-1, 16)               0" in lines
    assert "Trainable parameters: 195 (780 bytes as float32)" in lines


def test_mistakes_in_the_order_of_calls_are_named() -> None:
    x, y = samples()
    model = nn.model.SequentialModel([-1, 8])
    with pytest.raises(ValueError, match="SequentialModel has no layers"):
        model.setup(nn.loss.MSELoss())
    model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(3)])
    for call in (lambda: model.fit(x, y), lambda: model.predict(x), lambda: model.evaluate(x, y)):
        with pytest.raises(ValueError, match=r"SequentialModel has no loss yet; call setup\(\) first"):
            call()
    with pytest.raises(ValueError, match=r"SequentialModel is not built yet; call setup\(\) first"):
        model.trainable_variables()
    with pytest.raises(ValueError, match=r"SequentialModel is not built yet; call setup\(\) first"):
        model.to_bytes()
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    with pytest.raises(ValueError, match=r"is not compiled; call compile\(\) with a rule"):
        model.fit(x, y, verbose=0)
    with pytest.raises(ValueError, match=r"the model is set up, so Dense cannot be added; add layers before setup\(\)"):
        model.add(nn.layer.Dense(3))


def test_wrong_parts_are_named() -> None:
    model = classifier()
    with pytest.raises(TypeError, match=r"'layer' must be an instance of Layer, got the class; write Flatten\(\)"):
        nn.model.SequentialModel([-1, 8]).add(nn.layer.Flatten)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"setup\(\) 'loss' must be an instance of Loss, got the class; write MSELoss\(\)"):
        model.setup(nn.loss.MSELoss)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"setup\(\) 'metrics' must be an instance of Metric"):
        model.setup(nn.loss.MSELoss(), "accuracy")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have different names, got Loss, mse, mse"):
        model.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError(), nn.metric.MeanSquareError())
    with pytest.raises(TypeError, match=r"compile\(\) 'optimizer' must be an instance of IGradientDescent"):
        model.compile("adam")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="OpContainer 'gd_type' must be a class"):
        model.compile(nn.optimizer.GDOptimizer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            np.zeros((5, 7)),
            r"SequentialModel 'x' must have the model's input shape \(-1, 8\), got \(5, 7\): "
            "axis 1 must have length 8, got 7",
        ),
        (np.zeros(8), r"got \(8,\): a single sample needs an axis in front, x\[None\]"),
        (np.zeros((2, 8, 8, 1)), r"got \(2, 8, 8, 1\): expected 2 axes, got 4"),
        (np.zeros((0, 8)), r"'x' must hold at least one sample, got shape \(0, 8\)"),
        (np.array([["a"] * 8]), "'x' must hold numbers, got <U1"),
    ],
)
def test_wrong_samples_are_named(x: np.ndarray, message: str) -> None:
    model = classifier()
    for call in (
        lambda: model.fit(x, [0]),
        lambda: model.predict(x),
        lambda: model.evaluate(x, [0]),
        lambda: model.compute_gradients(x, [0]),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("shape", "given", "hint"),
    [([-1, 1], (9,), r"x\[:, None\]"), ([-1, 4, 4, 1], (9, 4, 4), r"x\[\.\.\., None\]"), ([-1, 4, 4], (4, 4), r"x\[None\]")],
)
def test_an_axis_that_is_missing_is_told(shape: list[int], given: tuple[int, ...], hint: str) -> None:
    model = nn.model.SequentialModel(shape, [nn.layer.Flatten(), nn.layer.Dense(1)])
    model.setup(nn.loss.MSELoss())
    with pytest.raises(ValueError, match=rf"'x' must have the model's input shape .*, got \({given[0]},.*: .*{hint}"):
        model.predict(np.zeros(given))


def test_numbers_in_a_row_are_no_samples() -> None:
    model = nn.model.SequentialModel(layers=[nn.layer.Dense(1)])
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.SGDOptimizer)
    with pytest.raises(ValueError, match=r"Dense 'dense_1': .* \(for samples of one number each give x\[:, None\]\)"):
        model.fit(np.zeros(5), np.zeros(5), verbose=0)
    model.fit(np.zeros((5, 1)), np.zeros(5), epoch=1, verbose=0)


def test_errors_while_building_name_the_layer_as_the_model_would() -> None:
    pools = [nn.layer.MaxPool(2), nn.layer.MaxPool(2), nn.layer.MaxPool(2)]
    model = nn.model.SequentialModel([-1, 4, 4, 1], pools)
    with pytest.raises(ValueError, match=r"^MaxPool 'maxpool_3': "):
        model.setup(nn.loss.MSELoss())
    assert [layer.given_name for layer in pools] == ["", "", ""]
    named = nn.model.SequentialModel([-1, 4, 4, 1], [nn.layer.MaxPool(2, name="maxpool_1"), *pools])
    with pytest.raises(ValueError, match=r"^MaxPool 'maxpool_3': "):
        named.setup(nn.loss.MSELoss())


def test_layers_in_place_of_the_input_shape_get_a_hint() -> None:
    for given in ([nn.layer.Dense(1)], nn.layer.Dense(1), [nn.layer.Flatten]):
        with pytest.raises(TypeError, match=r"got layers; these are the second argument: write SequentialModel\(layers="):
            nn.model.SequentialModel(given)  # type: ignore[arg-type]


def test_labels_that_do_not_fit_are_named() -> None:
    model, (x, y) = classifier(), samples(10)
    with pytest.raises(ValueError, match="'label' must hold one label for each of the 10 samples, got 9"):
        model.fit(x, y[:9])
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.2 for 3 outputs, got 5\.\.5"):
        model.compute_gradients(x, np.full(10, 5))
    with pytest.raises(ValueError, match="for each of the 10 samples, got 3"):
        model.fit(x, y, validation_data=(x, y[:3]), verbose=0)
    assert model.fit_history().rows == []

"""Losses beside every last activation: which pairs train, which are refused, and what the words of binary losses mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn import activation, loss
from nn.arrays import Array
from nn.layer import Conv2D, Dense, Flatten, Layer, Reshape
from nn.model.inputs import answers
from tests.statements import covers

WORD, SCORES = "binary_crossentropy", "binary_crossentropy_with_sigmoid"
ENDS = (None, *(name for name in activation.__all__ if name != "Activation"))
OPEN = {None, "Linear", "LeakReLU"}
ONE_SIDED = {"ReLU", "Softplus", "ELU", "SELU", "GELU", "SiLU", "Mish", "HardSwish", "Exponential", "LogSigmoid", "LogSoftmax"}
ANY = set(ENDS)
FITS: dict[type[loss.Loss], tuple[set[Any], set[Any]]] = {
    # the ends that fit models of one output, and of three
    loss.Binary_Cross_Entropy: (OPEN | {"Sigmoid"}, OPEN | {"Sigmoid"}),
    loss.Binary_Cross_Entropy_Of_Probabilities: ({"Sigmoid", "HardSigmoid"}, {"Sigmoid", "HardSigmoid", "Softmax"}),
    loss.Cross_Entropy: (set(), {"Softmax"}),
    loss.Cross_Entropy_With_Softmax: (set(), OPEN | ONE_SIDED | {"Softmax"}),
    **dict.fromkeys((loss.Hinge, loss.SquaredHinge), (OPEN | {"Tanh", "HTanh", "ELU", "SELU", "Softsign"}, ANY)),
    loss.Binary_Focal_Cross_Entropy: (OPEN | {"Sigmoid"}, OPEN | {"Sigmoid"}),
    loss.Focal_Cross_Entropy_With_Softmax: (set(), OPEN | ONE_SIDED | {"Softmax"}),
    loss.KLDivergence: (set(), {"Softmax"}),
    loss.Dice: ({"Sigmoid", "HardSigmoid"}, {"Sigmoid", "HardSigmoid", "Softmax"}),
    loss.PoissonLoss: (
        {"ReLU", "ReLU6", "Softplus", "Exponential", "Sigmoid", "HardSigmoid"},
        {"ReLU", "ReLU6", "Softplus", "Exponential", "Sigmoid", "HardSigmoid", "Softmax"},
    ),
    **dict.fromkeys(
        (loss.MSELoss, loss.MAELoss, loss.HuberLoss, loss.TanhLoss, loss.QuantileLoss, loss.CosineSimilarity, loss.Contrastive),
        (ANY - {"Softmax", "LogSoftmax"}, ANY),
    ),
}


def sequential(*layers: Layer, features: int = 3) -> nn.model.SequentialModel:
    return nn.model.SequentialModel([-1, features], layers, seed=4)


def end(name: str | None, units: int = 1) -> Dense:
    return Dense(units, None if name is None else getattr(activation, name)())


def data(samples: int = 60, features: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((samples, features)).astype(np.float32)
    return x, (x.sum(axis=1) + rng.standard_normal(samples) > 0).astype(int)


def test_every_loss_and_every_activation_is_in_the_table() -> None:
    assert {getattr(loss, name) for name in loss.__all__} - {loss.Loss, loss.DifferenceLoss, loss.Triplet, loss.CTC} == set(
        FITS
    )
    assert len(ENDS) == 21


@covers("DAT-10")
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("kind", FITS)
def test_every_loss_beside_every_last_activation(kind: type[loss.Loss], units: int) -> None:
    for name in ENDS:
        made = sequential(end(name, units))
        if name in FITS[kind][units > 1]:
            made.setup(kind())
            continue
        with pytest.raises(
            ValueError, match="Softmax of one output" if units == 1 and name in ("Softmax", "LogSoftmax") else kind.__name__
        ) as refused:
            made.setup(kind())
        message = str(refused.value)
        shown = "Dense without an activation" if name in (None, "Linear") else name
        assert shown in message or "has one output" in message, message
        assert "end in " in message or "take " in message, message


@covers("DAT-10")
@pytest.mark.parametrize("tail", [[], [Reshape([1, 1])], [Reshape([1, 1]), Flatten()]], ids=len)
@pytest.mark.parametrize("word", [WORD, SCORES])
def test_a_sigmoid_is_absorbed_also_behind_a_reshape(word: Any, tail: list[Layer]) -> None:
    """A score of 200 has a probability of 1 in float32, of which no logarithm is left: what is absorbed still costs 200."""
    x = np.array([[200.0, 0, 0]], np.float32)
    made = sequential(Dense(1, "sigmoid"), *tail)
    made.setup(word)
    made.set_weights([np.array([[1.0], [0], [0]]), np.zeros(1)])
    y = np.zeros(made.predict(x).shape)
    assert made.evaluate(x, y)["Loss"] == 200
    made.compute_gradients(x, y)
    assert made.store.gradients[0] == 200
    assert made.compute_gradients(x, y)[1].shape == y.shape


@covers("DAT-10")
def test_keras_program_of_two_classes_gives_keras_numbers() -> None:
    x, y = data()
    made = sequential(Dense(1, "sigmoid"))
    made.compile("adam", WORD, ["accuracy"])
    p = made.predict(x)[:, 0].astype(np.float64)
    expected = np.where(y == 1, -np.log(p), -np.log(1 - p)).mean()
    assert made.evaluate(x, y) == pytest.approx({"Loss": expected, "accuracy": ((p > 0.5) == y).mean()}, rel=1e-6)
    made.compute_gradients(x, y)
    assert made.store.gradients[:3] == pytest.approx(((p - y) @ x) / len(y), rel=1e-4)


class MeanOfTwo(nn.model.Model):
    """Ends in a probability that no `Sigmoid` gives."""

    def call(self, x: nn.Value) -> nn.Value:
        return (Dense(1, "sigmoid")(x) + Dense(1, "sigmoid")(x)) * 0.5


@covers("DAT-10")
def test_probabilities_made_in_another_way_are_taken_as_probabilities() -> None:
    x, y = data()
    made = MeanOfTwo([-1, 3])
    made.compile("adam", WORD, ["accuracy", "auc"])
    p = made.predict(x)[:, 0].astype(np.float64)
    expected = np.where(y == 1, -np.log(p), -np.log(1 - p)).mean()
    results = made.evaluate(x, y)
    assert results["Loss"] == pytest.approx(expected, rel=1e-6)
    assert results["accuracy"] == ((p > 0.5) == y).mean()
    assert made.fit(x, y, epochs=40, batch_size=10, verbose=0)["Loss"][-1] < expected


def test_other_outputs_than_probabilities_are_refused_at_the_first_batch() -> None:
    class Twice(nn.model.Model):
        def call(self, x: nn.Value) -> nn.Value:
            return Dense(1, "sigmoid")(x) * 40

    made = Twice([-1, 3])
    made.compile("adam", WORD)
    with pytest.raises(ValueError, match=r"takes probabilities in 0..1.*'binary_crossentropy_with_sigmoid'"):
        made.fit(*data(), verbose=0)


@covers("DAT-10")
def test_scores_with_the_word_for_probabilities_are_refused_with_the_other_word() -> None:
    for made in (sequential(Dense(1)), nn.model.SequentialModel([-1, 4, 4, 1], [Conv2D(1, 4), Flatten(), Dense(1)])):
        with pytest.raises(
            ValueError, match=rf"OfProb|Of_Probabilities takes .* ends in Dense without .*Dense\(1, 's.*'{SCORES}'"
        ):
            made.setup("binary_crossentropy")
        made.setup("binary_crossentropy_with_sigmoid")
    late = nn.model.SequentialModel(layers=[Dense(1)])
    late.compile("adam", "binary_crossentropy")
    with pytest.raises(ValueError, match="takes probabilities, but the model ends in Dense without an activation"):
        late.fit(*data(), verbose=0)


def test_a_refused_loss_leaves_the_one_before() -> None:
    made = sequential(Dense(1))
    made.setup("mse")
    with pytest.raises(ValueError, match="takes probabilities"):
        made.setup("binary_crossentropy")
    assert isinstance(made.loss, loss.MSELoss)


def test_a_rectified_convolution_ends_in_relu() -> None:
    made = nn.model.SequentialModel([-1, 4, 4, 1], [Conv2D(1, 4, activation="relu"), Flatten()])
    with pytest.raises(ValueError, match="ends in ReLU, which gives no number below 0"):
        made.setup("binary_crossentropy_with_sigmoid")


class OwnLoss(loss.Binary_Cross_Entropy_Of_Probabilities):
    """A loss of probabilities that a program defines itself."""

    def each(self, label: Array, output: Array) -> Array:
        return np.asarray(np.square(output - label).reshape(len(output), -1).mean(axis=1))

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        np.multiply(2 * (output - label), share, out=out)


def test_a_derived_loss_computes_by_itself_behind_a_sigmoid() -> None:
    x, y = data()
    made = sequential(Dense(1, "sigmoid"))
    made.setup(OwnLoss())
    assert made.evaluate(x, y)["Loss"] == pytest.approx(np.square(made.predict(x)[:, 0] - y).mean(), rel=1e-5)


@covers("DAT-10")
def test_the_softmax_of_the_seeds_stays() -> None:
    x, y = data()
    scores, softmax = sequential(Dense(2)), sequential(Dense(2, "softmax"))
    for made in (scores, softmax):
        made.compile("sgd", "crossentropy_with_softmax", ["accuracy"])
    softmax.set_weights(scores.get_weights())
    assert scores.evaluate(x, y) == softmax.evaluate(x, y)


@covers("DAT-10")
@pytest.mark.parametrize("name", ["scores", "sigmoid"])
def test_a_file_made_before_loads_and_computes_as_it_was(name: str) -> None:
    """The files were written by the release before, whose word 'binary_crossentropy' made `Binary_Cross_Entropy`."""
    before = np.load(Path(__file__).parent / "binary_before.npz")
    x, y = before["x"], before["y"]
    made = nn.model.Model.from_bytes(before[f"{name}_file"].tobytes())
    assert type(made.loss) is loss.Binary_Cross_Entropy
    np.testing.assert_allclose(made.predict(x), before[f"{name}_predict"], rtol=1e-6)
    assert made.evaluate(x, y)["Loss"] == pytest.approx(float(before[f"{name}_loss"]), rel=1e-6)
    made.fit(x, y, epochs=1, batch_size=8, shuffle=False, verbose=0)
    weights = np.concatenate([weight.reshape(-1) for weight in made.get_weights()])
    np.testing.assert_allclose(weights, before[f"{name}_more"], rtol=1e-5, atol=1e-7)


@covers("DAT-10")
def test_a_file_with_a_pair_that_is_refused_today_still_loads(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data()
    made = sequential(Dense(1, "relu"))
    with monkeypatch.context() as before:
        ignore: Callable[..., None] = lambda graph, loss: None  # noqa: E731 - the release before had no check
        before.setattr("nn.model.scored_network.check_ending", ignore)
        made.compile("sgd", SCORES)
    with caplog.at_level(logging.WARNING):
        again = nn.model.Model.from_bytes(made.to_bytes())
    assert "ends in ReLU" in caplog.text
    assert again.evaluate(x, y) == made.evaluate(x, y)
    with pytest.raises(ValueError, match="ends in ReLU"):
        again.setup(SCORES)


class Tempered(activation.Softmax):
    """Softmax of a tenth of the scores, which is not the one that a loss contains."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        super().forward([inputs[0] * 0.1], out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        super().derive(x, output, gradient * 0.1, out)


class Steep(activation.Sigmoid):
    """The logistic function of twice the score."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        super().forward([inputs[0] * 2], out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        super().derive(x, output, gradient * 2, out)


class Same(activation.Softmax):
    """Softmax by another name."""


class Twice(activation.Linear):
    """2 x, of a class that says of itself that it is x."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.multiply(inputs[0], 2, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, 2, out=out)


def test_a_loss_takes_the_values_of_a_sigmoid_of_the_users_own() -> None:
    """It took the scores before it, as if they went through the sigmoid of this package; `predict` gave other numbers."""
    x, y = data()
    made = sequential(Dense(1, Steep()))
    made.compile("sgd", WORD, ["accuracy"])
    p = made.predict(x)[:, 0].astype(np.float64)
    expected = np.where(y == 1, -np.log(p), -np.log(1 - p)).mean()
    assert made.evaluate(x, y) == pytest.approx({"Loss": expected, "accuracy": ((p > 0.5) == y).mean()}, rel=1e-5)
    made.compute_gradients(x, y)
    assert made.store.gradients[:3] == pytest.approx(2 * ((p - y) @ x) / len(y), rel=1e-3)


@pytest.mark.parametrize(
    ("own", "kind", "word"),
    [(Tempered, loss.Cross_Entropy_With_Softmax, "categorical_crossentropy"), (Steep, loss.Binary_Cross_Entropy, WORD)],
    ids=["softmax", "sigmoid"],
)
def test_a_loss_of_scores_refuses_probabilities_of_the_users_own(
    own: type[activation.Activation], kind: type[loss.Loss], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of a file is taken as it is, and its metrics get what `predict` gives."""
    x, y = data()
    made = sequential(Dense(3, own()))
    with pytest.raises(ValueError, match=rf"{kind.__name__} computes \w+ itself, but .* in {own.__name__}, .*'{word}'"):
        made.setup(kind())
    made.setup(word)
    with monkeypatch.context() as before:
        before.setattr("nn.model.scored_network.check_ending", lambda graph, loss: None)
        made.compile("sgd", kind())
    again = nn.model.Model.from_bytes(made.to_bytes(), custom_objects={own.__name__: own})
    label = y if own is Tempered else np.stack([y] * 3, axis=1)
    batch = again._make_batch(x, label)
    seen = again.runner.score(batch.x, batch.label)[1][0]
    np.testing.assert_array_equal(seen, again.predict(x))


def test_a_class_that_computes_what_its_base_does_is_absorbed() -> None:
    x = np.array([[200.0, 0, 0]], np.float32)
    made = sequential(Dense(2, Same()))
    made.setup(loss.Cross_Entropy_With_Softmax())
    made.set_weights([np.array([[1.0, 0], [0, 0], [0, 0]]), np.zeros(2)])
    assert made.evaluate(x, [1])["Loss"] == 200


def test_an_identity_that_a_user_has_changed_is_none() -> None:
    """It shared the memory of its input, which others read, and was taken for a view behind the end of a model."""
    x, y = data()
    entry = nn.Input([-1, 3])
    scores = Dense(2)(entry)
    made = nn.model.Model(entry, Twice()(scores) + scores)
    made.compile("sgd", "mse")
    kernel, bias = made.get_weights()
    np.testing.assert_allclose(made.predict(x), 3 * (x @ kernel + bias), rtol=1e-5)
    doubled = sequential(Dense(2, "softmax"), nn.layer.Activation(Twice()))
    doubled.setup(loss.Cross_Entropy_With_Softmax())
    z = doubled.predict(x).astype(np.float64)
    chosen = z[np.arange(len(y)), y]
    assert doubled.evaluate(x, y)["Loss"] == pytest.approx((np.log(np.exp(z).sum(axis=1)) - chosen).mean(), rel=1e-5)


@pytest.mark.parametrize("tail", [nn.layer.Activation("linear"), Reshape([3])], ids=["identity", "reshape"])
def test_answers_behind_a_view_of_a_softmax_are_its_probabilities(tail: Layer) -> None:
    """They went through a second softmax."""
    x, _ = data()
    made = sequential(Dense(3, "softmax"), tail)
    made.compile("sgd", "crossentropy_with_softmax")
    chances = answers(made, x).probabilities
    np.testing.assert_array_equal(chances, made.predict(x))


@pytest.mark.filterwarnings("error")
def test_a_score_far_below_0_is_answered_without_a_warning() -> None:
    made = sequential(Dense(1))
    made.setup(loss.Binary_Cross_Entropy())
    made.inputs = nn.dataset.ArrayDataset(np.zeros((4, 3)), ["no", "yes"] * 2)
    for variable in made.store.variables:
        variable.set_value(np.full(variable.shape, -500.0))
    found = answers(made, np.ones((1, 3)))
    assert found.probabilities is not None
    assert (found.values.tolist(), found.probabilities.tolist()) == (["no"], [[1, 0]])

"""What `fit` and `evaluate` take: shares for validation, weights, feeders, generators."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.data import DataFeeder
from nn.random import keyed
from tests.nn.model.models import classifier, samples


class Shuffled(DataFeeder):
    """Deals what `fit` deals for arrays."""

    def __init__(self, x: Array, y: Array, size: int, weight: Array | None = None) -> None:
        self.x, self.y, self.size, self.weight = x, y, size, weight

    def __len__(self) -> int:
        return -(-len(self.x) // self.size)

    @property
    def samples(self) -> int:
        return len(self.x)

    def deal(self, epoch: int, seed: int) -> Iterator[Any]:
        order = keyed(seed, "order", epoch).permutation(len(self.x))
        for start in range(0, len(order), self.size):
            rows = order[start : start + self.size]
            yield (self.x[rows], self.y[rows]) if self.weight is None else (self.x[rows], self.y[rows], self.weight[rows])


def ordered(x: Array, y: Array, size: int) -> list[tuple[Array, Array]]:
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


def test_the_last_share_is_set_aside_before_shuffling() -> None:
    x, y = samples(100)
    split, apart = classifier(), classifier()
    first = split.fit(x, y, epoch=2, validation_split=0.25, verbose=0)
    second = apart.fit(x[:75], y[:75], epoch=2, validation_data=(x[75:], y[75:]), verbose=0)
    assert first.rows == second.rows
    assert np.array_equal(split.store.values, apart.store.values)


def test_weights_are_set_aside_too() -> None:
    x, y = samples(40)
    weight = np.linspace(0, 2, 40)
    row = classifier().fit(x, y, epoch=1, validation_split=0.5, sample_weight=weight, verbose=0).rows[0]
    other = classifier()
    other.fit(x[:20], y[:20], epoch=1, sample_weight=weight[:20], verbose=0)
    assert row["val_Loss"] == other.evaluate(x[20:], y[20:], sample_weight=weight[20:])["Loss"]


def test_a_weight_is_so_many_equal_samples() -> None:
    """Twice the weight is the sample twice, whose loss is then divided by the larger number."""
    x, y = samples(30)
    weight = np.where(np.arange(30) < 10, 2.0, 1.0)
    model = classifier(dtype="float64")
    weighted = model.compute_gradients(x, y, sample_weight=weight)[0]
    gradients = model.store.gradients.copy()
    repeated = model.compute_gradients(np.concatenate([x, x[:10]]), np.concatenate([y, y[:10]]))[0]
    assert weighted * 30 == pytest.approx(repeated * 40, rel=1e-12)
    np.testing.assert_allclose(gradients * 30, model.store.gradients * 40, rtol=1e-9, atol=1e-13)


def test_the_weighted_loss_of_an_epoch_is_the_sum_over_the_number_of_samples() -> None:
    x, y = samples(101)
    weight = keyed(0, "weights").uniform(0, 3, 101)
    model = classifier(dtype="float64")
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    each = [model.evaluate(x[place : place + 1], y[place : place + 1])["Loss"] for place in range(101)]
    expected = np.dot(each, weight) / 101
    assert model.fit(x, y, epoch=1, batch_size=8, sample_weight=weight, verbose=0)["Loss"][0] == pytest.approx(expected)
    assert model.evaluate(x, y, 7, sample_weight=weight)["Loss"] == pytest.approx(expected)


@pytest.mark.parametrize("one_hot", [False, True])
def test_classes_weigh_as_their_samples_do(one_hot: bool) -> None:
    x, y = samples(60)
    label = np.eye(3)[y] if one_hot else y
    by_class, by_sample, both = classifier(), classifier(), classifier()
    by_class.fit(x, label, epoch=2, class_weight={0: 3.0, 2: 0.5}, verbose=0)
    by_sample.fit(x, label, epoch=2, sample_weight=np.array([3.0, 1.0, 0.5])[y], verbose=0)
    both.fit(x, label, epoch=2, class_weight={0: 3.0}, sample_weight=np.array([1.0, 1.0, 0.5])[y], verbose=0)
    assert np.array_equal(by_class.store.values, by_sample.store.values)
    assert np.array_equal(both.store.values, by_sample.store.values)
    plain = classifier()
    plain.fit(x, label, epoch=2, verbose=0)
    assert not np.array_equal(plain.store.values, by_sample.store.values)


def test_a_feeder_does_what_its_batches_say() -> None:
    x, y = samples(70)
    weight = np.linspace(0.5, 1.5, 70)
    fed, direct = classifier(dropout=0.2), classifier(dropout=0.2)
    for given, more in ((None, {}), (weight, {"sample_weight": weight})):
        fed.fit(Shuffled(x, y, 16, given), epoch=2, seed=4, verbose=0)
        direct.fit(x, y, epoch=2, batch_size=16, seed=4, verbose=0, **more)  # type: ignore[arg-type]
    assert np.array_equal(fed.store.values, direct.store.values)
    assert fed.fit_history().rows == direct.fit_history().rows


def test_a_feeder_may_validate_and_be_evaluated() -> None:
    x, y = samples(50)
    model = classifier()
    history = model.fit(x, y, epoch=1, validation_data=Shuffled(x, y, 7), verbose=0)
    fed, direct = model.evaluate(Shuffled(x, y, 7)), model.evaluate(x, y)
    assert fed["accuracy"] == direct["accuracy"] == history["val_accuracy"][-1]
    assert fed["Loss"] == pytest.approx(direct["Loss"], rel=1e-6)


def test_iterables_of_batches() -> None:
    x, y = samples(50)
    direct, listed, generated, endless = classifier(), classifier(), classifier(), classifier()
    direct.fit(x, y, epoch=3, batch_size=16, shuffle=False, verbose=0)
    listed.fit(ordered(x, y, 16), epoch=3, verbose=0)
    generated.fit((batch for _ in range(3) for batch in ordered(x, y, 16)), epoch=3, steps_per_epoch=4, verbose=0)

    def forever() -> Iterator[tuple[Array, Array]]:
        while True:
            yield from ordered(x, y, 16)

    endless.fit(forever(), epoch=3, steps_per_epoch=4, verbose=0)
    for model in (listed, generated, endless):
        assert np.array_equal(model.store.values, direct.store.values)


def test_the_first_batch_builds_a_model_without_input_shape_and_is_trained_on() -> None:
    x, y = samples(32)

    def model() -> nn.model.SequentialModel:
        made = nn.model.SequentialModel(layers=[nn.layer.Dense(3)])
        made.setup(nn.loss.Cross_Entropy_With_Softmax())
        made.compile(nn.gradient_descent.ADAMOptimizer)
        return made

    direct, fed, generated = model(), model(), model()
    direct.fit(x, y, epoch=1, batch_size=16, verbose=0)
    fed.fit(Shuffled(x, y, 16), epoch=1, verbose=0)
    generated.fit(Shuffled(x, y, 16).deal(0, 0), epoch=1, verbose=0)
    assert np.array_equal(fed.store.values, direct.store.values)
    assert np.array_equal(generated.store.values, direct.store.values)


def test_what_callbacks_hear_of_a_feeder() -> None:
    x, y = samples(20)
    heard: list[Any] = []

    class Listener(nn.callback.Callback):
        def on_train_begin(self) -> None:
            heard.append(self.params["steps"])

    model = classifier()
    for data, steps in ((Shuffled(x, y, 8), None), (iter(ordered(x, y, 8)), None), (ordered(x, y, 8), 2)):
        model.fit(data, epoch=1, steps_per_epoch=steps, callbacks=[Listener()], verbose=0)
    assert heard == [3, 3, 2]


X, Y = samples(10)


@pytest.mark.parametrize(
    ("data", "arguments", "error", "message"),
    [
        ((X, Y), {"validation_split": 1.5}, ValueError, r"fit\(\) 'validation_split' must be a number >= 0 and < 1, got 1.5"),
        ((X, Y), {"validation_split": 0.99}, ValueError, "must leave samples on both sides, got 0.99 of 10 samples"),
        ((X, Y), {"validation_split": 0.5, "validation_data": (X, Y)}, ValueError, "or 'validation_split', got both"),
        ((X, Y[:9]), {"validation_split": 0.5}, ValueError, r"must be of one length, got 10 and \(9,\)"),
        (([],), {"validation_split": 0.5}, ValueError, "takes 'validation_split' with arrays"),
        ((X, Y), {"validation_data": (X, Y, None, 4)}, ValueError, r"must be \(x, label\), .* got 4 of them"),
        ((X, Y), {"validation_data": []}, ValueError, r"fit\(\) 'validation_data' gave no batch"),
        ((X, Y), {"validation_data": 3}, TypeError, r"fit\(\) 'validation_data' must be an array with a label, .* got int"),
        ((X, Y), {"steps_per_epoch": 3}, ValueError, "for batches that come one by one, not for arrays"),
        ((X, Y), {"sample_weight": np.ones(9)}, ValueError, "weight"),
        ((X, Y), {"sample_weight": -np.ones(10)}, ValueError, "weight"),
        ((X, Y), {"sample_weight": np.full(10, np.nan)}, ValueError, "weight"),
        ((X, Y), {"class_weight": {0: -1}}, ValueError, r"'class_weight\[0\]' must be a number >= 0, got -1"),
        ((X, Y), {"class_weight": {"a": 1}}, ValueError, "'class_weight' must have class numbers as keys, got 'a'"),
        ((X, Y), {"class_weight": {5: 1.0}}, ValueError, "'class_weight' must name classes of the model, 0 to 2, got 5"),
        ((X, Y), {"class_weight": [1, 2]}, TypeError, "'class_weight' must map class numbers to weights, got list"),
        ((X,), {}, TypeError, r"fit\(\) 'x' must be an array with a label, or a DataFeeder or an iterable .* got ndarray"),
        ((Shuffled(X, Y, 5), Y), {}, ValueError, "a DataFeeder as 'x' takes no 'label'"),
        ((Shuffled(X, Y, 5),), {"sample_weight": Y}, ValueError, r"a feeder deals batches \(x, label, weight\)"),
        (([],), {}, ValueError, r"fit\(\) 'x' gave no batch"),
        ((iter([(X, Y)]),), {"epoch": 2}, ValueError, "an iterator is spent after one pass, so give a list or a DataFeeder"),
        (([X, Y],), {}, ValueError, r"must give batches \(x, label\) or \(x, label, weight\), got ndarray"),
        (([(X, Y, None, 1)],), {}, ValueError, "got 4 of them"),
        (([(X[:, :7], Y)],), {}, ValueError, r"'x' must have the model's input shape \(-1, 8\), got \(10, 7\)"),
        (([(X, Y[:9])],), {}, ValueError, "one label for each of the 10 samples, got 9"),
        (([(X, Y)],), {"steps_per_epoch": 0}, ValueError, r"fit\(\) 'steps_per_epoch' must be a positive integer, got 0"),
    ],
)
def test_mistakes_are_named(data: tuple[Any, ...], arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        classifier().fit(*data, verbose=0, **arguments)


def test_class_weights_need_classes() -> None:
    model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(1)])
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    with pytest.raises(
        ValueError, match=r"'class_weight' needs class numbers or one-hot rows .* that are not 0 and 1; 'sample_w"
    ):
        model.fit(X, X[:, :1], class_weight={0: 2.0}, verbose=0)
    model.fit(X, (X[:, :1] > 0).astype(float), class_weight={0: 2.0}, verbose=0)
    with pytest.raises(ValueError, match="'class_weight' must name classes of the model, 0 to 1, got 2"):
        model.fit(X, (X[:, :1] > 0).astype(float), class_weight={2: 2.0}, verbose=0)


def test_targets_of_a_regression_are_no_one_hot_rows() -> None:
    model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(3)])
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    for target in (X[:, :3], np.ones((10, 3)), np.zeros((10, 3))):
        with pytest.raises(ValueError, match=r"got labels of shape \(10, 3\) .* that are not one-hot rows"):
            model.fit(X, target, class_weight={0: 2.0}, verbose=0)
    model.fit(X, np.eye(3)[Y], class_weight={0: 2.0}, verbose=0)


def test_classes_of_positions_are_not_those_of_samples() -> None:
    model = nn.model.SequentialModel([-1, 4, 2], [nn.layer.Dense(4)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    x = X.reshape(10, 4, 2)
    for label in (np.tile(np.arange(4), (10, 1)), np.tile(np.eye(4), (10, 1, 1))):
        with pytest.raises(ValueError, match=r"one class for each sample, got labels of shape \(10, 4"):
            model.fit(x, label, class_weight={0: 2.0}, verbose=0)


def test_class_weights_of_decisions() -> None:
    """A single output with two classes weighs as its samples do."""
    values = []
    for loss, label in ((nn.loss.Binary_Cross_Entropy(), Y > 0), (nn.loss.Hinge(), np.where(Y > 0, 1, -1))):
        for weights in ({"class_weight": {0: 3.0, 1: 0.5}}, {"sample_weight": np.where(Y > 0, 0.5, 3.0)}):
            model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(1)])
            model.setup(loss)
            model.compile(nn.gradient_descent.ADAMOptimizer)
            model.fit(X, label, epoch=2, verbose=0, **weights)  # type: ignore[arg-type]
            values.append(model.store.values)
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[2], values[3])


def test_evaluate_takes_a_pair() -> None:
    model = classifier()
    assert model.evaluate((X, Y)) == model.evaluate(X, Y)
    assert model.evaluate((X, Y, np.full(10, 2.0))) == model.evaluate(X, Y, sample_weight=np.full(10, 2.0))


def test_validation_data_are_checked_before_training() -> None:
    model = classifier()
    generated = (batch for batch in ordered(X, Y, 4))
    with pytest.raises(ValueError, match=r"'validation_data' is an iterator, spent after one of 3 epochs; give arrays, a list"):
        model.fit(X, Y, epoch=3, validation_data=generated, verbose=0)
    for wrong in (iter([]), iter([(X[:, :7], Y)]), [(X, Y[:9])], Shuffled(X, Y + 5, 4)):
        with pytest.raises(ValueError, match=r"gave no batch|input shape|one label for each|labels must lie in"):
            model.fit(X, Y, epoch=1, validation_data=wrong, verbose=0)
    assert model.epochs_trained == 0
    history = model.fit(X, Y, epoch=1, validation_data=generated, verbose=0)
    assert history["val_accuracy"][0] == model.evaluate(X, Y)["accuracy"]


def test_progress_of_unknown_length(capsys: pytest.CaptureFixture[str]) -> None:
    classifier().fit(iter(ordered(X, Y, 4)), epoch=1)
    assert "Epoch 1/1: Loss" in capsys.readouterr().err

"""What `fit`, `evaluate` and `predict` take: shares, weights, feeders, generators; and numbers that are none."""

import inspect
import re

import numpy as np
import pytest

import nn
from nn.data import DataFeeder
from nn.dataset import ArrayDataset
from nn.dataset import transforms as tr
from nn.dataset.interface import checksum_of
from nn.model import SequentialModel
from nn.operation import Operation
from nn.random import keyed
from tests.nn.model.models import classifier, samples

X, Y = samples(50)
WEIGHT = np.linspace(0.5, 1.5, 50)


def built(shape, *layers, loss=None, rule=None):
    model = SequentialModel(shape, list(layers))
    model.setup(loss or nn.loss.Cross_Entropy_With_Softmax())
    model.compile(rule or nn.gradient_descent.ADAMOptimizer(0.01))
    return model


def fitted(*data, model=None, epoch=1, **arguments):
    model = model or classifier()
    model.fit(*data, epoch=epoch, verbose=0, **arguments)
    return model


def same(*models):
    return all(np.array_equal(model.store.values, models[0].store.values) for model in models)


class Shuffled(DataFeeder):
    """Deals what `fit` deals for arrays."""

    def __init__(self, size, *columns):
        self.size, self.columns = size, columns

    def __len__(self):
        return -(-self.samples // self.size)

    @property
    def samples(self):
        return len(self.columns[0])

    def deal(self, epoch, seed):
        order = keyed(seed, "order", epoch).permutation(self.samples)
        for start in range(0, self.samples, self.size):
            yield tuple(column[order[start : start + self.size]] for column in self.columns)


def ordered(x, y, size):
    return [(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)]


def test_the_last_share_is_set_aside_before_shuffling_with_its_weights():
    split = fitted(X, Y, epoch=2, validation_split=0.5, sample_weight=WEIGHT)
    apart = fitted(X[:25], Y[:25], epoch=2, validation_data=(X[25:], Y[25:], WEIGHT[25:]), sample_weight=WEIGHT[:25])
    assert split.fit_history().rows == apart.fit_history().rows
    assert same(split, apart, fitted(X[:25], Y[:25], epoch=2, sample_weight=WEIGHT[:25]))
    row = split.fit_history().rows[-1]
    assert row["val_Loss"] == split.evaluate(X[25:], Y[25:], sample_weight=WEIGHT[25:])["Loss"]


def test_a_weight_is_so_many_equal_samples():
    """Twice the weight is the sample twice, whose loss is then divided by the larger number."""
    weight = np.where(np.arange(50) < 10, 2.0, 1.0)
    model = classifier(dtype="float64")
    weighted = model.compute_gradients(X, Y, sample_weight=weight)[0]
    gradients = model.store.gradients.copy()
    repeated = model.compute_gradients(np.concatenate([X, X[:10]]), np.concatenate([Y, Y[:10]]))[0]
    assert weighted * 50 == pytest.approx(repeated * 60, rel=1e-12)
    np.testing.assert_allclose(gradients * 50, model.store.gradients * 60, rtol=1e-9, atol=1e-13)
    model.compile(nn.gradient_descent.SGDOptimizer(0))  # so that an epoch sees what evaluate sees
    each = [model.evaluate(X[place : place + 1], Y[place : place + 1])["Loss"] for place in range(50)]
    expected = np.dot(each, WEIGHT) / 50
    fitted(X, Y, model=model, batch_size=8, sample_weight=WEIGHT)
    assert model.fit_history()["Loss"][0] == pytest.approx(expected)
    assert model.evaluate(X, Y, 7, sample_weight=WEIGHT)["Loss"] == pytest.approx(expected)


@pytest.mark.parametrize("label", [Y, np.eye(3)[Y]], ids=["numbers", "one-hot"])
def test_classes_weigh_as_their_samples_do(label):
    by_sample = fitted(X, label, epoch=2, sample_weight=np.array([3.0, 1.0, 0.5])[Y])
    by_class = fitted(X, label, epoch=2, class_weight={0: 3.0, 2: 0.5})
    both = fitted(X, label, epoch=2, class_weight={0: 3.0}, sample_weight=np.array([1.0, 1.0, 0.5])[Y])
    assert same(by_sample, by_class, both)
    assert not same(by_sample, fitted(X, label, epoch=2))


@pytest.mark.parametrize(("loss", "other"), [(nn.loss.Binary_Cross_Entropy(), 0), (nn.loss.Hinge(), -1)])
def test_class_weights_of_decisions(loss, other):
    """A single output with two classes weighs as its samples do."""
    models = [
        fitted(X, np.where(Y > 0, 1, other), model=built([-1, 8], nn.layer.Dense(1), loss=loss), epoch=2, **weights)
        for weights in ({"class_weight": {0: 3.0, 1: 0.5}}, {"sample_weight": np.where(Y > 0, 0.5, 3.0)})
    ]
    assert same(*models)


def test_a_feeder_does_what_its_batches_say():
    fed, direct = classifier(dropout=0.2), classifier(dropout=0.2)
    for more in ((), (WEIGHT,)):
        fitted(Shuffled(16, X, Y, *more), model=fed, epoch=2, seed=4)
        fitted(X, Y, model=direct, epoch=2, batch_size=16, seed=4, **({"sample_weight": WEIGHT} if more else {}))
    assert same(fed, direct)
    assert fed.fit_history().rows == direct.fit_history().rows
    model = fitted(X, Y, validation_data=Shuffled(7, X, Y))
    found, expected = model.evaluate(Shuffled(7, X, Y)), model.evaluate(X, Y)
    assert found["accuracy"] == expected["accuracy"] == model.fit_history()["val_accuracy"][-1]
    assert found["Loss"] == pytest.approx(expected["Loss"], rel=1e-6)
    assert model.evaluate((X, Y)) == model.evaluate(X, Y)
    assert model.evaluate((X, Y, np.full(50, 2.0))) == model.evaluate(X, Y, sample_weight=np.full(50, 2.0))
    bare = type("Bare", (DataFeeder,), {"deal": lambda self, epoch, seed: ordered(X, Y, 16)})  # more is not asked of one
    assert same(fitted(bare(), epoch=2), fitted(ordered(X, Y, 16), epoch=2))


def test_iterables_of_batches():
    def forever():
        while True:
            yield from ordered(X, Y, 16)

    assert same(
        fitted(X, Y, epoch=3, batch_size=16, shuffle=False),
        fitted(ordered(X, Y, 16), epoch=3),
        fitted((batch for _ in range(3) for batch in ordered(X, Y, 16)), epoch=3, steps_per_epoch=4),
        fitted(forever(), epoch=3, steps_per_epoch=4),
    )
    heard = []

    class Listener(nn.callback.Callback):
        def on_train_begin(self):
            heard.append(self.params["steps"])

    for data, steps in ((Shuffled(8, X, Y), None), (iter(ordered(X, Y, 8)), None), (ordered(X, Y, 8), 2)):
        fitted(data, steps_per_epoch=steps, callbacks=[Listener()])
    assert heard == [7, 7, 2]


def test_the_first_batch_builds_a_model_without_input_shape_and_is_trained_on():
    assert same(
        *(
            fitted(*data, model=built(None, nn.layer.Dense(3)), **more)
            for data, more in (
                ((X, Y), {"batch_size": 16}),
                ((Shuffled(16, X, Y),), {}),
                ((Shuffled(16, X, Y).deal(0, 0),), {}),
            )
        )
    )


def test_validation_data_are_checked_before_training():
    model, generated = classifier(), (batch for batch in ordered(X, Y, 4))
    with pytest.raises(ValueError, match=r"'validation_data' is an iterator, spent after one of 3 epochs; give arrays, a list"):
        fitted(X, Y, model=model, epoch=3, validation_data=generated)
    for wrong in (iter([]), iter([(X[:, :7], Y)]), [(X, Y[:9])], Shuffled(4, X, Y + 5)):
        with pytest.raises(ValueError, match=r"gave no batch|input shape|one label for each|labels must lie in"):
            fitted(X, Y, model=model, validation_data=wrong)
    assert model.epochs_trained == 0
    fitted(X, Y, model=model, validation_data=generated)
    assert model.fit_history()["val_accuracy"][0] == model.evaluate(X, Y)["accuracy"]


def regression(target, **arguments):
    return fitted(X, target, model=built([-1, 8], nn.layer.Dense(np.shape(target)[1]), loss=nn.loss.MSELoss()), **arguments)


def positions(label):
    return fitted(X.reshape(50, 4, 2), label, model=built([-1, 4, 2], nn.layer.Dense(4)), class_weight={0: 2.0})


BINARY = (X[:, :1] > 0).astype(float)
ONE_HOT = r"got labels of shape \(50, 3\) .* that are not one-hot rows"


def test_batches_that_end_before_the_steps_of_an_epoch_are_told(caplog):
    """Once for each `fit`, with how many there were."""
    fitted((batch for batch in ordered(X, Y, 16)), steps_per_epoch=9)
    assert "fit() 'x' ended after 4 of the 9 batches of 'steps_per_epoch': epoch 1 is as short" in caplog.text
    caplog.clear()
    fitted(list(ordered(X, Y, 16)), epoch=3, steps_per_epoch=5)
    assert len(caplog.records) == 1
    caplog.clear()
    fitted(list(ordered(X, Y, 16)), epoch=2, steps_per_epoch=4)
    assert not caplog.records


@pytest.mark.parametrize(
    ("use", "text"),
    [
        *((lambda given=given: fitted(X, Y, **given), text) for given, text in [
            ({"validation_split": 1.5}, r"ValueError: fit\(\) 'validation_split' must be a number >= 0 and < 1, got 1.5"),
            ({"validation_split": 0.999}, "ValueError: .*must leave samples on both sides, got 0.999 of 50 samples"),
            ({"validation_split": 0.5, "validation_data": (X, Y)}, "ValueError: .*or 'validation_split', got both"),
            ({"validation_data": (X, Y, None, 4)}, r"ValueError: .*must be \(x, label\), .* got 4 of them"),
            ({"validation_data": []}, r"ValueError: fit\(\) 'validation_data' gave no batch"),
            ({"validation_data": 3}, r"TypeError: fit\(\) 'validation_data' must be an array with a label, .* got int"),
            ({"steps_per_epoch": 3}, "ValueError: .*for batches that come one by one, not for arrays"),
            ({"sample_weight": np.ones(9)}, "ValueError: .*weight"),
            ({"sample_weight": -np.ones(50)}, "ValueError: .*weight"),
            ({"sample_weight": np.full(50, np.nan)}, "ValueError: .*weight"),
            ({"class_weight": {0: -1}}, r"ValueError: .*'class_weight\[0\]' must be a number >= 0, got -1"),
            ({"class_weight": {"a": 1}}, "ValueError: .*'class_weight' must have class numbers as keys, got 'a'"),
            ({"class_weight": {5: 1.0}}, "ValueError: .*'class_weight' must name classes of the model, 0 to 2, got 5"),
            ({"class_weight": [1, 2]}, "TypeError: .*'class_weight' must map class numbers to weights, got list"),
        ]),
        (lambda: fitted(X, Y[:9], validation_split=0.5), r"ValueError: .*must be of one length, got 50 and \(9,\)"),
        *((lambda use=use: use(fitted(X, Y)), rf"ValueError: .*{what} must be an array, or lists of one length, got lists of")
          for use, what in [
              (lambda model: model.predict([[1, 2], [3]]), "'x'"),
              (lambda model: model.train_on_batch(X[:2], [[1, 2], [3]]), "'label'"),
              (lambda model: model.fit(X[:2], Y[:2], sample_weight=[[1, 2], [3]]), "'sample_weight'"),
          ]),
        (lambda: fitted(X, Y).train_on_batch(X), "ValueError: .*needs the labels of its samples, got None"),
        (lambda: fitted([], validation_split=0.5), "ValueError: .*takes 'validation_split' with arrays"),
        (lambda: fitted(X), r"TypeError: fit\(\) 'x' must be an array with a label, or a DataFeeder or an .* got ndarray"),
        (lambda: fitted(Shuffled(5, X, Y), Y), "ValueError: .*a DataFeeder as 'x' takes no 'label'"),
        (lambda: fitted(Shuffled(5, X, Y), sample_weight=Y), r"ValueError: .*a feeder deals batches \(x, label, weight\)"),
        (lambda: fitted([]), r"ValueError: fit\(\) 'x' gave no batch"),
        (lambda: fitted(iter([(X, Y)]), epoch=2), "an iterator is spent after one pass, so give a list or a DataFeeder"),
        (lambda: fitted([X, Y]), r"ValueError: .*must give batches \(x, label\) or \(x, label, weight\), got ndarray"),
        (lambda: fitted([(X, Y, None, 1)]), "ValueError: .*got 4 of them"),
        (lambda: fitted([(X[:, :7], Y)]), r"ValueError: .*'x' must have the model's input shape \(-1, 8\), got \(50, 7\)"),
        (lambda: fitted([(X, Y[:9])]), "ValueError: .*one label for each of the 50 samples, got 9"),
        (lambda: fitted([(X, Y)], steps_per_epoch=0), r"fit\(\) 'steps_per_epoch' must be a positive integer, got 0"),
        *((lambda target=target: regression(target, class_weight={0: 2.0}), ONE_HOT)
          for target in (X[:, :3], np.ones((50, 3)), np.zeros((50, 3)))),
        (lambda: regression(X[:, :1], class_weight={0: 2.0}),
         "ValueError: .*'class_weight' needs class numbers or one-hot rows .* that are not 0 and 1; 'sample_w"),
        (lambda: regression(BINARY, class_weight={2: 2.0}), "'class_weight' must name classes of the model, 0 to 1, got 2"),
        *((lambda label=label: positions(label), r"ValueError: .*one class for each sample, got labels of shape \(50, 4")
          for label in (np.tile(np.arange(4), (50, 1)), np.tile(np.eye(4), (50, 4, 1))[:, :4])),
    ],
)  # fmt: skip
def test_mistakes_are_named(use, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")


def test_class_weights_of_what_may_be_classes():
    assert regression(BINARY, class_weight={0: 2.0}).epochs_trained == 1
    assert regression(np.eye(3)[Y], class_weight={0: 2.0}).epochs_trained == 1


class Explosion(Operation):
    """x, but infinite where the first number of a sample is above 100; `backwards` has a gradient of NaN there instead."""

    def __init__(self, backwards):
        self.backwards = backwards

    def infer(self, *shapes):
        return shapes[0]

    def forward(self, inputs, out):
        np.copyto(out, inputs[0])
        if not self.backwards:
            out[inputs[0][:, 0] > 100] = np.inf

    def backward(self, inputs, output, gradient, wanted):
        if wanted[0] is not None:
            np.copyto(wanted[0], gradient)
            if self.backwards:
                wanted[0][inputs[0][:, 0] > 100] = np.nan


class Explosive(nn.layer.Layer):
    def __init__(self, backwards=False, name=None):
        super().__init__(name)
        self.backwards = backwards

    def build(self, input_shape):
        self.shift = self.add_variable("shift", input_shape[1:], nn.initializer.Zeros())

    def call(self, x):
        return (x + self.shift).apply(Explosion(self.backwards))


class Identity(nn.initializer.Initializer):
    def __call__(self, shape, generator):
        return np.eye(*shape)


def spoiled(place, value, count=60):
    x, y = samples(count)
    x[place] = value
    return x, y


def stops(model, *data, text, error=FloatingPointError, **arguments):
    """Assert that training stops for this reason, before it changes anything."""
    with pytest.raises(error, match=text):
        fitted(*data, model=model, **arguments)
    assert model.epochs_trained == 0
    return model


def test_a_loss_or_gradient_that_is_not_finite_names_epoch_batch_and_layer_and_changes_nothing():
    x, y = spoiled((45, 0), 101, 100)
    model = built([-1, 8], Explosive(name="bomb"), nn.layer.Dense(3), loss=nn.loss.MSELoss())
    batches = {"batch_size": 20, "shuffle": False}
    stops(
        model, x, np.eye(3)[y], text=r"fit\(\) stopped in epoch 1 at batch 3: the loss is (nan|inf); .*bomb", epoch=2, **batches
    )
    assert np.isfinite(model.store.values).all()
    first = nn.layer.Dense(8)
    first.kernel_initializer = Identity()
    rule = nn.gradient_descent.ADAMOptimizer(1e-6)
    model = built([-1, 8], first, Explosive(backwards=True, name="odd"), nn.layer.Dense(3), rule=rule)
    text = (
        r"fit\(\) stopped in epoch 1 at batch 3: the loss is [\d.]+; "
        r"the gradient of variable 'odd/shift' is not finite \(fit\(stop_on_nan=False\) goes on\)"
    )
    stops(model, x, y, text=text, **batches)
    assert np.isfinite(model.store.values).all()
    fitted(x, y, model=model, stop_on_nan=False, **batches)
    assert not np.isfinite(model.store.values).all()


def test_a_single_batch_that_is_not_finite_is_told_with_the_sample_or_the_layer():
    x, y = spoiled((3, 1), np.nan, 8)
    model = fitted(X, Y)
    with pytest.raises(
        FloatingPointError, match=r"train_on_batch\(\) stopped: the loss is nan; sample 3 of the batch has nan at x"
    ):
        model.train_on_batch(x, y)
    model = built([-1, 8], Explosive(name="bomb"), nn.layer.Dense(3), loss=nn.loss.MSELoss())
    with pytest.raises(FloatingPointError, match=r"train_on_batch\(\) stopped: the loss is (nan|inf); the first .* is .*bomb"):
        model.train_on_batch(spoiled((45, 0), 101, 100)[0], np.eye(3)[spoiled((45, 0), 101, 100)[1]])


def test_samples_that_are_not_finite_are_named_as_in_the_callers_array_whatever_the_order():
    text = r"epoch 1 at batch 2: the loss is nan; sample 27 has nan at x\[27, 3\] \(fit\(stop_on_nan=False\) goes on\)"
    stops(classifier(), *spoiled((27, 3), np.nan), text=text, batch_size=20, shuffle=False)
    x, y = spoiled((27, 3), -np.inf)
    for seed in range(3):
        stops(classifier(), x, y, text=r"sample 27 has -inf at x\[27, 3\]", batch_size=7, seed=seed)
    text = r"batch 1: .* sample 7 of the batch has -inf at x\[7, 3\]"
    stops(classifier(), [(x[20:40], y[20:40])], text=text)
    images = np.zeros((5, 4, 4, 1), np.float32)
    images[2, 3, 1, 0] = np.nan
    model = built([-1, 4, 4, 1], nn.layer.Flatten(), nn.layer.Dense(1), loss=nn.loss.MSELoss())
    stops(model, images, np.zeros(5), text=r"sample 2 has nan at x\[2, 3, 1, 0\]")
    large = X.astype(np.float64)
    large[31, 5] = 1e300
    text = r"sample 31 has 1e\+300 at x\[31, 5\], which overflows in float32"
    model = stops(classifier(), large, Y, text=text, batch_size=20)
    for call in (lambda: model.predict(large), lambda: model.evaluate(large, Y, batch_size=10)):
        with pytest.raises(ValueError, match=text):
            call()
    assert np.isfinite(classifier(dtype="float64").predict(large)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_predict_evaluate_and_validation_name_the_sample(value):
    (x, y), model, good = spoiled((41, 2), value, 50), classifier(), samples(20)
    uses = {
        r"fit\(\) 'validation_data'": lambda: fitted(*good, model=model, validation_data=(x, y)),
        r"fit\(\) 'validation_data' ": lambda: fitted(x, y, model=model, validation_split=0.3),
        **{rf"predict\(\) 'x'{'':{size}}": lambda size=size: model.predict(x, size) for size in (8, 50, 1000)},
        **{rf"evaluate\(\) 'x'{'':{size}}": lambda size=size: model.evaluate(x, y, size) for size in (8, 50, 1000)},
    }
    for name, use in uses.items():
        with pytest.raises(
            ValueError, match=rf"{name.strip()} must hold finite numbers: sample 41 has -?(nan|inf) at x\[41, 2\]"
        ):
            use()
    fitted(*good, model=model, validation_data=(x, y), stop_on_nan=False)
    assert len(model.fit_history()["val_Loss"]) == 1
    assert model.predict(x[:41]).shape == (41, 3)


@pytest.mark.filterwarnings("ignore:fit.. 'x'. Samples are far")
def test_what_else_overflows_is_found_and_training_goes_on_if_one_wants_it():
    norm = built([-1, 8], nn.layer.BatchNorm(), nn.layer.Dense(1), loss=nn.loss.MSELoss())
    stops(norm, X * np.float32(1e25), np.zeros(50), text=r"batch 1: .*batchnorm_1")
    model = classifier()
    model.trainable_variables()[2].value[0, 0] = np.nan
    stops(model, X, Y, text="the loss is nan; the first that is not finite is variable 'dense_2/kernel'")
    for size in (10, 10_000):  # squares that overflow, of a gradient that does not
        model = built([-1, 1], nn.layer.Dense(size), loss=nn.loss.MSELoss(), rule=nn.gradient_descent.SGDOptimizer(0.0))
        fitted([[1e13], [-1e13]], np.zeros((2, size)), model=model)
        assert np.abs(model.store.gradients).max() > 1e20
    model = fitted(*spoiled((3, 3), np.nan), epoch=2, stop_on_nan=False)
    assert len(model.fit_history()) == 2
    with pytest.warns(RuntimeWarning, match="in the model file '.*' has 128 of 128 numbers that are not finite") as told:
        loaded = nn.model.Model.from_bytes(model.to_bytes())
    # Of the weights, and of the rule's state.
    assert [str(each.message).split("'")[1] for each in told] == ["dense_1/kernel", "rule:momentum"]
    for history in (model.fit_history(), loaded.fit_history()):
        assert np.isnan(history["Loss"]).all()


WIDTH = 600  # of a kernel so large that squares of what it is multiplied with are read in its place


class Cut(Operation):
    """Zeros in place of x; the gradient of each sample's first number is `pull`, of the others 0."""

    def __init__(self, pull):
        self.pull = pull

    def infer(self, *shapes):
        return shapes[0]

    def forward(self, inputs, out):
        out.fill(0)

    def backward(self, inputs, output, gradient, wanted):
        wanted[0].fill(0)
        wanted[0][:, 0] = self.pull


class Pulled(nn.layer.Layer):
    """Products with one kernel, which are cut off: what is not finite in them changes no loss."""

    def __init__(self, pull, products):
        super().__init__("pulled")
        self.pull, self.products = pull, products

    def build(self, input_shape):
        self.kernel = self.add_variable("kernel", (WIDTH, WIDTH))

    def call(self, x):
        return sum(factor(x) @ self.kernel for factor in self.products).apply(Cut(self.pull))


class Spoiling(nn.optimizer.GDOptimizer):
    def gradient_ready(self, variable, block_id):
        if variable.shape == (WIDTH, WIDTH):
            variable.gradient[-1] = np.inf


ONCE, SIX = [lambda x: x], [lambda x: x * 1] * 6


@pytest.mark.filterwarnings("ignore:fit.. 'x'. Samples are far")
@pytest.mark.parametrize(
    ("value", "pull", "products", "dtype", "finite"),
    [
        (1, 1, ONCE, "float32", True),
        (1e20, 1e20, ONCE, "float32", False),
        (1e10, 1e28, ONCE, "float32", True),  # more than half of the largest float
        (1e-30, 1e30, ONCE, "float32", True),
        (1e30, 1, ONCE, "float32", True),  # squares overflow, and the gradient does not
        (6.4e18, 6.4e18, SIX, "float32", False),  # the sum overflows, and no product does
        (1, np.nan, ONCE, "float32", False),
        (0, -np.inf, ONCE, "float32", False),
        (1, 0, [lambda x: x.log()], "float32", False),
        (1e20, 1e20, ONCE, "float64", True),
        (1e150, 1e157, ONCE, "float64", True),
        (1e160, 1e160, ONCE, "float64", False),
    ],
)
def test_a_gradient_that_is_not_finite_is_found_whether_it_is_looked_at_or_what_it_is_the_product_of(
    value, pull, products, dtype, finite
):
    model = SequentialModel([-1, WIDTH], [Pulled(pull, products)], dtype=dtype)
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.SGDOptimizer(1e-3))
    (before,) = model.get_weights()
    x, label = np.zeros((2, 2, WIDTH), dtype)
    x[:, 0] = value
    if finite:
        fitted(x, label, model=model)
    else:
        stops(model, x, label, text="the loss is 0.0; the gradient of variable 'pulled/kernel' is not finite")
        assert np.array_equal(before, model.get_weights()[0])
    with np.errstate(all="ignore"):
        assert np.isfinite(model.store.gradients).all() == finite
        fitted(x, label, model=model, stop_on_nan=False)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_known_of_a_gradient_does_not_count_where_an_optimizer_changes_it(threads, monkeypatch):
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: threads)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 2 * WIDTH * WIDTH * 4)
    monkeypatch.setattr("nn.plan.stages.JOIN", 1)
    ones = np.ones((2, WIDTH), "float32")
    model = fitted(ones, ones, model=built([-1, WIDTH], nn.layer.Dense(WIDTH), loss=nn.loss.MSELoss()))
    sure = set()
    model.runner.step((ones,), (ones,), None, (0,), sure=sure)
    assert [variable.name for variable in sure] == ["dense_1/kernel"]
    assert (model.runner.lanes is not None) == (threads == 2)
    model.compile(nn.optimizer.OpContainer(Spoiling, nn.gradient_descent.SGDOptimizer))
    with pytest.raises(FloatingPointError, match="the gradient of variable 'dense_1/kernel' is not finite"):
        fitted(ones, ones, model=model)


TABLE, LABEL = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
MASKED, MASKED_LABEL = np.ma.masked_array(TABLE, mask=np.zeros_like(TABLE)), np.ma.masked_equal(LABEL, 1)
MASKED[4, 1] = np.ma.masked
MASKED_WEIGHT = np.ma.masked_array(np.ones(6), mask=[0, 1, 0, 0, 0, 0])
IN_X, IN_LABEL = "1 masked of 12 numbers", "3 masked of 6 numbers"


def model_of_two():
    return built([-1, 2], nn.layer.Dense(2))


def masked(*data, **arguments):
    return fitted(*data, model=model_of_two(), **arguments)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: model_of_two().predict(MASKED), rf"SequentialModel 'x' must not be masked, got {IN_X}: fill them with filled"),
        (lambda: model_of_two().predict([MASKED[3], MASKED[4]]), "'x' must not be masked, got 1 masked of 2 numbers"),
        (lambda: model_of_two().predict([[1.0, 2.0], np.ma.masked]), "'x' must not be masked, got 1 masked of 1 numbers"),
        (lambda: model_of_two().evaluate(MASKED, LABEL), f"'x' must not be masked, got {IN_X}"),
        (lambda: model_of_two().evaluate(TABLE, MASKED_LABEL), f"SequentialModel 'label' must not be masked, got {IN_LABEL}"),
        (lambda: masked(MASKED, LABEL), f"'x' must not be masked, got {IN_X}"),
        (lambda: masked(TABLE, MASKED_LABEL), f"'label' must not be masked, got {IN_LABEL}"),
        (lambda: masked(TABLE, LABEL, sample_weight=MASKED_WEIGHT), "'sample_weight' must not be masked, got 1 masked of 6"),
        (lambda: masked(MASKED, LABEL, validation_split=0.5), f"'x' must not be masked, got {IN_X}"),
        (lambda: masked(TABLE, LABEL, validation_data=(TABLE, MASKED_LABEL)), f"'label' must not be masked, got {IN_LABEL}"),
        (lambda: masked([(TABLE, MASKED_LABEL)]), f"'label' must not be masked, got {IN_LABEL}"),
        (lambda: masked([(MASKED, LABEL)]), f"'x' must not be masked, got {IN_X}"),
        (lambda: model_of_two().compute_gradients(MASKED, LABEL), f"'x' must not be masked, got {IN_X}"),
        (lambda: model_of_two().set_weights([MASKED[3:5], [0, 0]]), r"set_weights\(\) array 0 must not be masked, got 1"),
        (lambda: model_of_two().store.variables[0].set_value(MASKED[3:5]), "Variable 'dense_1/kernel' must not be masked"),
        (lambda: nn.Placeholder([-1, 2]) * MASKED[4], "an array in an expression must not be masked"),
        (lambda: ArrayDataset(MASKED, LABEL, TABLE, LABEL), f"ArrayDataset 'x' must not be masked, got {IN_X}"),
        (lambda: ArrayDataset(TABLE, LABEL, TABLE, MASKED_LABEL), f"ArrayDataset 'test_y' must not be masked, got {IN_LABEL}"),
        (lambda: checksum_of([TABLE, MASKED_LABEL]), f"a data set must not be masked, got {IN_LABEL}"),
        (lambda: tr.Normalize()(MASKED, LABEL, TABLE, LABEL), f"Normalize samples must not be masked, got {IN_X}"),
        (lambda: tr.OneHot()(TABLE, LABEL, TABLE, MASKED_LABEL), f"OneHot labels must not be masked, got {IN_LABEL}"),
        (lambda: tr.ImageCls()(TABLE, MASKED_LABEL, TABLE, LABEL), f"ImageCls samples and labels must not .*, got {IN_LABEL}"),
        (lambda: tr.Augment(1)(MASKED.reshape(3, 2, 2), LABEL[:3], TABLE, LABEL), f"Augment samples must not .*, got {IN_X}"),
    ],
)  # fmt: skip
def test_masked_arrays_are_refused_wherever_data_enter(use, message):
    """`np.asarray` drops a mask in silence; one that masks nothing is an array."""
    with pytest.raises(ValueError, match=message):
        use()
    nothing = np.ma.masked_array(TABLE, mask=np.zeros_like(TABLE))
    assert np.array_equal(model_of_two().predict(nothing), model_of_two().predict(TABLE))
    assert type(ArrayDataset(nothing, LABEL, TABLE, LABEL).load()[0]) is np.ndarray


# `Weighted` needs another one, which does its work
METRICS = [
    kind
    for name in nn.metric.__all__
    if not inspect.isabstract(kind := getattr(nn.metric, name)) and kind is not nn.metric.Weighted
]


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.__name__)
def test_metrics_refuse_masked_arrays_too(kind):
    metric = kind("mse") if kind is nn.metric.Weighted else kind()
    owner = type(metric._inner()).__name__
    pairs = [(np.ma.masked_equal([0, 1], 1), np.array([0.5, 1.0])), ([0, 1], np.ma.masked_equal([0.5, 1], 1))]
    for label, prediction in pairs:
        with pytest.raises(ValueError, match=f"{owner} '(label|prediction)' must not be masked, got 1 masked of 2 numbers"):
            metric.update(label, prediction)

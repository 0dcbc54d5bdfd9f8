"""Names and arguments that a Keras user writes: each does what it does in Keras, by values, or is refused."""

import ast
import contextlib
import gc
import math
import re
import traceback
import warnings
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.extension import checked_call, level_of_user
from nn.gradient_descent import ADAMOptimizer, IGradientDescent, MomentumOptimizer, NesterovOptimizer, SGDOptimizer
from nn.keras_names import ABBREVIATIONS
from nn.random import keyed
from tests.programs import python
from tests.statements import covers

X = np.random.default_rng(0).random((9, 8))
Y = np.random.default_rng(1).random((9, 4))


def made(optimizer: object = "sgd", seed: int = 0) -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(4)], seed=seed)
    model.compile(optimizer, "mse", ["mae", "mse"])  # type: ignore[arg-type]
    return model


@covers("DAT-11")
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_of_sgd_is_that_of_keras_for_a_constant_rate(nesterov: bool) -> None:
    """Keras: v <- m v - r g, then w <- w + v, or w <- w + m v - r g."""
    rule = SGDOptimizer(learning_rate=0.1, momentum=0.9, nesterov=nesterov)
    same = (NesterovOptimizer if nesterov else MomentumOptimizer)(0.1, momentum=0.9)
    ours, others, keras, velocity = np.ones(5), np.ones(5), np.ones(5), np.zeros(5)
    for gradient in np.random.default_rng(2).standard_normal((20, 5)):
        rule.update(ours, gradient)
        same.update(others, gradient)
        velocity = 0.9 * velocity - 0.1 * gradient
        keras = keras + (0.9 * velocity - 0.1 * gradient if nesterov else velocity)
    assert np.array_equal(ours, others)
    np.testing.assert_allclose(ours, keras, rtol=1e-12)
    plain, first = np.ones(5), np.ones(5)
    SGDOptimizer(0.1).update(plain, first)
    assert plain.tolist() == [0.9] * 5
    assert SGDOptimizer(0.1).state_dict() == {"step": 0}


def test_nesterov_without_momentum_is_refused() -> None:
    with pytest.raises(ValueError, match="SGDOptimizer 'nesterov' needs a 'momentum' > 0, got 0"):
        SGDOptimizer(nesterov=True)


def test_a_rule_with_momentum_goes_on_from_a_file() -> None:
    whole, first = made(SGDOptimizer(0.1, momentum=0.9)), made(SGDOptimizer(0.1, momentum=0.9))
    whole.fit(X, Y, epochs=4, batch_size=3, verbose=0)
    first.fit(X, Y, epochs=2, batch_size=3, verbose=0)
    back = nn.model.Model.from_bytes(first.to_bytes())
    back.fit(X, Y, epochs=2, batch_size=3, verbose=0)
    assert all(map(np.array_equal, whole.get_weights(), back.get_weights()))


def clipped(gradients: np.ndarray, sizes: list[int], limit: float) -> np.ndarray:
    """Keras's formula: each variable's gradient times limit / max(its norm, limit)."""
    parts = np.split(gradients, np.cumsum(sizes)[:-1])
    return np.concatenate([part * limit / max(np.linalg.norm(part), limit) for part in parts])


@covers("DAT-11")
@pytest.mark.parametrize("kind", [SGDOptimizer, ADAMOptimizer, NesterovOptimizer])
def test_clipnorm_limits_each_variable_as_in_keras(kind: type[IGradientDescent]) -> None:
    sizes = [70_000, 3, 200_000, 1]  # more than a chunk, and such as end within one
    gradients = np.random.default_rng(3).standard_normal(sum(sizes)) * np.repeat([1e-4, 5.0, 0.01, 1e-3], sizes)
    rule, plain = kind(0.1, clipnorm=1.0), kind(0.1)
    rule.partition(sizes)
    ours, keras = np.ones(sum(sizes)), np.ones(sum(sizes))
    for _ in range(2):
        rule.update(ours, gradients)
        plain.update(keras, clipped(gradients, sizes, 1.0))
    np.testing.assert_allclose(ours, keras, rtol=1e-10, atol=1e-12)
    assert not rule.elementwise
    assert kind(0.1, global_clipnorm=1.0).clip_norm == 1.0
    assert kind(0.1, clipvalue=1.0).clip_value == 1.0
    assert kind(**rule.get_config()).clip_variable_norm == 1.0


def test_what_clipnorm_needs_and_excludes() -> None:
    with pytest.raises(ValueError, match="must be told their sizes by partition"):
        SGDOptimizer(clipnorm=1.0).update(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="takes 'clip_norm' or 'clip_variable_norm', got both"):
        SGDOptimizer(clipnorm=1.0, global_clipnorm=1.0)
    with pytest.raises(ValueError, match="got SGDOptimizer with 'clip_variable_norm'; use PSGDOptimizer"):
        nn.optimizer.ShardedPSGDOptimizer.admit(SGDOptimizer(clipnorm=1.0))
    model = made(SGDOptimizer(0.5, clipnorm=0.01))
    front, back = model.split("dense_1")
    whole = made(SGDOptimizer(0.5, clipnorm=0.01))
    whole.fit(X, Y, epochs=1, batch_size=9, shuffle=False, verbose=0)
    activations = front.forward(X.astype(np.float32), (0, 0, 0, 0))
    back.compute_gradients(activations, Y, key=(0, 0, 0, 0))
    front.backward(back.input_gradient)
    front.apply_gradients()
    back.apply_gradients()
    assert all(map(np.array_equal, whole.get_weights(), front.get_weights() + back.get_weights()))


@covers("DAT-11")
@pytest.mark.parametrize(
    ("word", "variance"),
    [("glorot_normal", 2 / (300 + 200)), ("he_normal", 2 / 300), ("lecun_normal", 1 / 300), ("truncated_normal", None)],
)
def test_normals_are_cut_off_and_spread_as_in_keras(word: str, variance: float | None) -> None:
    """Keras: truncated at two spreads of a normal of sqrt(variance) / 0.8796..., so that the variance is that wanted."""
    layer = nn.layer.Dense(200, kernel_initializer=word)  # type: ignore[arg-type]
    drawn = layer.kernel_initializer((300, 200), keyed(0, word))
    wide = 0.05 if variance is None else math.sqrt(variance) / 0.87962566103423978
    assert abs(drawn).max() <= 2 * wide
    assert abs(drawn).max() > 1.99 * wide
    assert drawn.std() == pytest.approx(wide * 0.87962566103423978, rel=0.01)
    assert drawn.mean() == pytest.approx(0, abs=4 * wide / math.sqrt(drawn.size))
    model = nn.model.SequentialModel([-1, 3], [layer])
    model.setup("mse")
    assert type(nn.model.Model.from_bytes(model.to_bytes()).layers[0].kernel_initializer) is type(layer.kernel_initializer)


@covers("DAT-11")
def test_mae_and_mse_are_metrics_by_word() -> None:
    model = made()
    results, difference = model.evaluate(X, Y), model.predict(X) - Y
    assert results["mae"] == pytest.approx(float(abs(difference).mean()), rel=1e-6)
    assert results["mse"] == pytest.approx(float((difference**2).mean()), rel=1e-6)


@covers("DAT-11")
def test_results_have_keras_names_in_monitors_and_in_the_history() -> None:
    model = made()
    stop = nn.callback.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
    lower = nn.callback.ReduceOnPlateau(monitor="loss", min_lr=0.1)
    history = model.fit(X, Y, validation_split=0.3, epochs=3, callbacks=[stop, lower], verbose=0)
    assert set(history.history) == {"loss", "mae", "mse", "val_loss", "val_mae", "val_mse"}
    assert history.history["val_loss"] == history["val_Loss"] == history["val_loss"]
    assert history.history["loss"] == history["Loss"] == history["loss"]
    assert stop.restore_best
    assert stop.get_config()["monitor"] == "val_Loss"


@covers("DAT-11")
def test_a_checkpoint_of_weights_only_is_loaded_by_name(tmp_path: Path) -> None:
    model, other = made(), made(seed=1)
    path = tmp_path / "best-{epoch}.weights"
    save = nn.callback.ModelCheckpoint(filepath=path, monitor="val_loss", save_best_only=True, save_weights_only=True)
    model.fit(X, Y, validation_split=0.3, epochs=1, callbacks=[save], verbose=0)
    assert save.saved == str(tmp_path / "best-1.weights")
    other.load_weights(save.saved)
    assert np.array_equal(model.predict(X), other.predict(X))
    assert other.epochs_trained == 0
    with pytest.raises(
        nn.model.ModelFileError, match=r"not a model file: 'format' must be 'psgd.model/2', got 'psgd.weights/1'"
    ):
        nn.model.Model.load(save.saved)
    model.save(tmp_path / "whole")
    made(seed=2).load_weights(tmp_path / "whole")
    smaller = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(8)])
    smaller.setup("mse")
    before = smaller.get_weights()
    with pytest.raises(
        nn.model.ModelFileError, match="does not fit SequentialModel: only the file has a variable 'dense_2/kernel'"
    ):
        smaller.load_weights(save.saved)
    assert all(map(np.array_equal, before, smaller.get_weights()))


def test_rates_that_were_set_travel_with_copies_and_files(tmp_path: Path) -> None:
    import copy

    model = made()
    assert model.rule is not None
    model.rule.learning_rate = 0.25
    model.save(tmp_path / "m")
    for other in (copy.deepcopy(model), nn.model.Model.load(tmp_path / "m")):
        assert other.rule is not None
        assert other.rule.learn_rate == 0.25
        other.fit(X, Y, epochs=1, verbose=0)
    model.clear()
    assert model.rule.learn_rate == 0.01


class Stack(nn.model.SequentialModel):
    """A model of a user's own."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: SGDOptimizer(learnrate=1),
            "SGDOptimizer has no argument 'learnrate', but learn_rate, .*did you mean 'learn_rate'",
        ),
        (lambda: nn.callback.EarlyStopping(restor_best=True), "EarlyStopping has no argument 'restor_best', but monitor, "),
        (lambda: nn.callback.ModelCheckpoint(), "ModelCheckpoint needs the argument 'path'; its arguments are path, monitor"),
        (lambda: nn.loss.HuberLoss(beta=1), "HuberLoss has no argument 'beta', but delta; did you mean 'delta'"),
        (lambda: nn.loss.MSELoss(1), "MSELoss takes no arguments, got 1$"),
        (lambda: nn.metric.Precision(thresholds=1), "Precision has no argument 'thresholds', but threshold, name"),
        (lambda: nn.gradient_descent.Cosine(0.1), "Cosine needs the argument 'steps'; its arguments are rate, steps, final"),
        (lambda: nn.model.SequentialModel(layer=[]), "SequentialModel has no argument 'layer', but input_shape, layers, "),
        (lambda: nn.dataset.CSVDataset("x", lable="y"), "CSVDataset has no argument 'lable', but path, label, "),
        (lambda: nn.dataset.transforms.OneHot(class_count=1), "OneHot has no argument 'class_count', but classes"),
        (lambda: nn.layer.Dense(3, units=3), "Dense 'units' must be given once, got it by place and by name"),
        (lambda: nn.initializer.Zeros(2), "Zeros takes no arguments, got 1$"),
        (
            lambda: nn.optimizer.GDOptimizer(1),
            "GDOptimizer needs the argument 'store'; its arguments are rule, store, exchange",
        ),
        (
            lambda: nn.model.Model(),
            r"^Model needs the argument 'inputs'; its arguments are .*; a model of layers, .* is SequentialModel\(",
        ),
        (lambda: nn.layer.Layer(), r"^Layer is a base class: take one that is derived from it, or .* that defines call\(\)$"),
        (lambda: type("Mine", (nn.layer.Layer,), {})(), r"^Mine must define call\(\), which its base class leaves to it$"),
        (
            lambda: nn.layer.Dense(3)(nn.Placeholder([-1, 4]), training=True),
            r"^Dense is called without named arguments, got training; fit\(\) trains, predict\(\) and evaluate\(\) do not$",
        ),
        (lambda: nn.layer.Dense(3)(), "^A call of Dense needs the argument 'x'; its argument is x$"),
        (lambda: Stack([-1, 4])(x=1, trainig=True), "^A call of Stack has no argument 'trainig', .* mean 'training'"),
        (lambda: Stack([-1, 4]).fit(epocs=1), r"^fit\(\) has no argument 'epocs', but x, label, .*did you mean 'epochs'"),
        (lambda: Stack([-1, 4]).fit(epochs=1), r"^fit\(\) needs the argument 'x'; its arguments are x, label, epoch, "),
        (
            lambda: Stack([-1, 4]).setup(metric="accuracy"),
            r"^setup\(\) has no argument 'metric', but .*loss_weights, \*metrics",
        ),
        (lambda: Stack([-1, 4]).add(1, 2), r"^add\(\) takes at most 1 argument without a name, got 2; its argument is layer$"),
        (lambda: Stack([-1, 4]).summary(100), r"^summary\(\) takes no arguments, got 1$"),
        (lambda: nn.model.Model.load(), r"^Model.load\(\) needs the argument 'path'; its arguments are path, custom_objects$"),
    ],
)
def test_calls_that_do_not_fit_are_told_in_one_form(call: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()  # type: ignore[operator]


def test_a_warning_shows_the_line_of_the_user() -> None:
    """However many functions of ours, such as `checked_call`, lie between it and the one that warns."""
    code = "def warn(): return level()\ndef between(): return warn()\nchecked = checked_call(between)"
    ours: dict[str, Any] = {"__name__": "parallel_sgd.made_up", "level": level_of_user, "checked_call": checked_call}
    exec(code, ours)
    assert (ours["warn"](), ours["between"](), ours["checked"]()) == (2, 3, 4)


def test_an_error_of_the_function_itself_stays_its_own() -> None:
    class Faulty(nn.layer.Layer):
        def call(self, x: object) -> nn.Value:
            raise TypeError("the layer's own")

    with pytest.raises(TypeError, match=r"^the layer's own$"):
        Faulty()(nn.Placeholder([-1, 4]))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: nn.layer.Dot(axis=1), "did you mean 'axes'"),
        (lambda: nn.layer.RMSNorm(center=True), "has no argument 'center', but axis|has no argument 'center', but epsilon"),
        (lambda: nn.layer.SimpleRNN(3, recurrent_activation="tanh"), "has no argument 'recurrent_activation', but units"),
        (lambda: nn.layer.GRU(3, recurrent_activation="tanh"), "it is the logistic function, always"),
        (lambda: nn.layer.LayerNorm(axis=1), "it is the last axis, always"),
    ],
)
def test_a_remedy_is_told_of_the_layers_for_which_it_is_true(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told) as caught:
        call()
    assert "always" in told or "always" not in str(caught.value)


def test_a_name_with_a_dot_is_no_attribute() -> None:
    assert getattr(nn, "function.exp2", None) is None and not hasattr(nn.layer, "layer.Dens")


def test_whole_numbers_of_sequences_are_compared_as_such() -> None:
    for values, dtype in (([np.float32([2**31])], "int32"), ([[2.0**63]], "int64")):
        with pytest.raises(ValueError, match="must hold numbers of int"):
            nn.dataset.pad_sequences(values, dtype=dtype)
    assert nn.dataset.pad_sequences([[[], []]]).shape == (1, 2, 0)


def test_ragged_labels_of_two_outputs_are_named() -> None:
    x = nn.Input([-1, 3])
    model = nn.model.Model(x, [nn.layer.Dense(1, name="a")(x), nn.layer.Dense(1, name="b")(x)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="lists of one length, got lists of several") as caught:
        model.evaluate(np.zeros((2, 3)), [[[1, 2], [3]], np.ones((2, 1))])
    # of this test and of the call: what NumPy has raised within says no more than the sentence
    assert len(caught.traceback) == 2


def test_an_error_of_a_user_s_own_array_stays_its_own() -> None:
    class OnDevice:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise ValueError("device memory lost")

    with pytest.raises(ValueError, match="device memory lost"):
        made().predict(OnDevice())


def test_a_warning_of_weights_in_a_file_shows_the_line_of_the_user() -> None:
    model = made()
    model.store.values[0] = np.nan
    with pytest.warns(RuntimeWarning, match="in the model file") as caught:
        nn.model.Model.from_bytes(model.to_bytes())
    assert caught[0].filename == __file__


def test_another_objective_lets_go_of_the_plans_of_the_one_before() -> None:
    model = made()
    model.predict(X)
    before = weakref.ref(model.runner)
    model.setup("mae")
    gc.collect()
    assert before() is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("net.keras", "which Keras does not read: call it net.model; nn reads weights of Keras by load_weights"),
        ("net.weights.H5", "which Keras does not read: call it net.model"),
        ("net.pt", "which torch does not read: call it net.model$"),
        ("net.onnx", r"which a runtime of ONNX does not read: .*; export\(path\) writes ONNX"),
        ("net.model", ""),
        ("net.safetensors", ""),
        ("net", ""),
    ],
)
def test_a_file_under_the_name_of_another_library_is_warned_of(name: str, told: str, tmp_path: Path) -> None:
    """And written, whatever its name: after a long training the model is not to be lost."""
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.setup("mse")
    for save in (model.save, model.save_weights):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            save(tmp_path / name)
        assert [each.filename for each in found] == [__file__] * bool(told)
        assert not told or re.search(f"^{name!r} is written as safetensors, .*{told}", str(found[0].message))
        assert model.load_weights(tmp_path / name).taken
        (tmp_path / name).unlink()
        with warnings.catch_warnings():
            # also where warnings are errors
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match=told) if told else contextlib.nullcontext():
                save(tmp_path / name)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("loss", "metric", "told"),
    [
        ("bce", "accuracy", "'loss' has no word 'bce'; write 'binary_crossentropy'"),
        ("BCE", "accuracy", "'loss' has no word 'BCE'; write 'binary_crossentropy'"),
        ("binary_crossentropy", "acc", "'metrics' has no word 'acc'; write 'accuracy'"),
        # a word of losses is none of metrics
        ("binary_crossentropy", "kld", "'metrics' must be one of .*, got 'kld'"),
    ],
)
def test_short_words_are_answered_with_the_word_here(loss: Any, metric: Any, told: str) -> None:
    model = nn.model.SequentialModel(layers=[nn.layer.Dense(1, "sigmoid")])
    with pytest.raises(ValueError, match=told):
        model.compile("adam", loss, [metric])


def test_every_short_word_is_answered_with_a_word_that_is_one() -> None:
    words = {*nn.loss.WORDS, *nn.metric.WORDS}
    assert set(ABBREVIATIONS.values()) <= words and not ABBREVIATIONS.keys() & words


def frames_of(error: BaseException) -> list[str]:
    return [each.name for each in traceback.extract_tb(error.__traceback__)]


def test_an_answer_shows_the_line_of_the_user_and_none_of_ours_behind_the_call() -> None:
    """A cell of a notebook would else show ten frames, and the sentence below them."""
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    own = "test_an_answer_shows_the_line_of_the_user_and_none_of_ours_behind_the_call"
    with pytest.raises(ValueError, match="takes rows of probabilities") as wrong_loss:
        model.compile("adam", "crossentropy")
    with pytest.raises(TypeError, match="'batch_size' must be a positive integer") as wrong_type:
        model.fit(np.ones((2, 4)), np.ones((2, 3)), batch_size="two")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 'absent\.model'") as wrong_file:
        nn.model.Model.load("absent.model")
    built = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    built.setup("mse")
    with pytest.raises(FileNotFoundError, match="There is no folder 'nowhere'") as wrong_folder:
        built.plot("nowhere/net.svg")
    for caught in (wrong_loss, wrong_type, wrong_file, wrong_folder):
        assert frames_of(caught.value) == [own, "call"]
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
    with pytest.raises(TypeError, match="Dense has no argument 'unit'") as wrong_argument:
        nn.layer.Dense(unit=3)  # type: ignore[call-arg]
    assert {*frames_of(wrong_argument.value)} == {own, "__call__"} and wrong_argument.value.__suppress_context__
    with pytest.raises(TypeError, match="Dense 'units' must be a positive integer") as wrong_units:
        nn.layer.Dense("three")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 'rleu'; did you mean 'relu'") as wrong_word:
        nn.layer.Dense(3, "rleu")  # type: ignore[arg-type]
    for made in (wrong_units, wrong_word):
        assert {*frames_of(made.value)} == {own, "__call__"} and made.value.__cause__ is None


def test_an_error_that_is_no_answer_shows_all() -> None:
    """One of a layer of the user's own, one that Python raises in our code, and one that such an error has led to."""

    class Faulty(nn.layer.Layer):
        def call(self, x: object) -> nn.Value:
            raise ValueError("the layer's own")

    with pytest.raises(ValueError, match="the layer's own") as caught:
        nn.model.SequentialModel([-1, 4], [Faulty()]).setup("mse")
    assert __file__ in {
        each.filename for each in traceback.extract_tb((caught.value.__cause__ or caught.value).__traceback__)[1:]
    }
    code = (
        "def parse(text): return int(text)\n"
        "def answer(text): raise ValueError('an answer')\n"
        "def lead(text):\n    try: parse(text)\n    except ValueError as error: raise ValueError('led') from error\n"
    )
    code += (
        "def read(path):\n    try: open(path)\n"
        "    except OSError as error: raise ValueError(f'cannot be read: {error.strerror}') from error\n"
        "def silent(path):\n    try: open(path)\n    except OSError as error: raise ValueError('an answer') from error\n"
        "def call(users):\n    try: users()\n"
        "    except OSError as error: raise ValueError(f'cannot be read: {error.strerror}') from error\n"
    )
    ours: dict[str, Any] = {"__name__": "nn.made_up"}
    exec(code, ours)
    found = {}
    for name in ("parse", "answer", "lead"):
        with pytest.raises(ValueError, match=r"x|answer|led") as caught:
            checked_call(ours[name])("x")
        found[name] = frames_of(caught.value)[2:], type(caught.value.__cause__)
    assert found == {"parse": (["parse"], type(None)), "answer": ([], type(None)), "lead": (["lead"], ValueError)}

    def users() -> None:
        Path("x").read_text("utf-8")

    # an error of the system is told where its reason stands in the answer, unless code of the user has met it
    for name, argument, frames in (("read", "x", []), ("silent", "x", ["silent"]), ("call", users, ["call"])):
        with pytest.raises(ValueError, match=r"an answer|cannot be read") as caught:
            checked_call(ours[name])(argument)
        assert (frames_of(caught.value)[2:], caught.value.__cause__ is None) == (frames, not frames), name
    # nor where the program handles an error of its own, which it would not see
    with pytest.raises(ValueError, match="cannot be read") as caught:
        try:
            _ = {}["of the program"]
        except KeyError:
            checked_call(ours["read"])("x")
    assert isinstance(caught.value.__cause__, OSError)
    assert isinstance(caught.value.__cause__.__context__, KeyError)


def test_the_development_mode_of_python_shows_all_frames(tmp_path: Path) -> None:
    program = "import nn\nnn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)]).compile('adam', 'crossentropy')"
    said = [python(tmp_path, *options, "-c", program).stderr for options in ((), ("-X", "dev"))]
    assert [each.count("\n  File ") > 2 for each in said] == [False, True], said
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


def test_editors_offer_no_former_names() -> None:
    """They are there while a program runs, and hidden from what reads the code without running it."""
    for name in ("network", "scored_network", "trained_network", "inputs"):
        module = import_module(f"nn.model.{name}")
        tree = ast.parse(Path(str(module.__file__)).read_text())
        classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
        shown = [
            ast.unparse(each)
            for each in [line for body in classes for line in body.body]
            if isinstance(each, ast.Assign) and ast.unparse(each.value).startswith("renamed(")
        ]
        assert not shown and "renamed(" in ast.unparse(tree)

"""docs/from-keras.md: every name of nn in it exists, and what at least two public programs use stands in it."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

import nn
from nn.extension import OverrideWarning
from nn.keras_names import ABSENT, ATTRIBUTES, MEANT, name_here
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "from-keras.md").read_text("utf-8")
USED = frozenset(
    re.findall(
        r"\w+",
        """
        Activation Adam AdamW AUC AveragePooling2D BatchNormalization Bidirectional CenterCrop Concatenate
        Conv1D Conv2D Conv2DTranspose Dense Dropout EarlyStopping Embedding Flatten GRU GlobalAveragePooling1D
        GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D GlorotNormal GradientTape HeNormal Input L1
        L2 LSTM Lambda LayerNormalization LeakyReLU LearningRateScheduler MaxPooling1D MaxPooling2D Mean
        MeanAbsoluteError ModelCheckpoint MultiHeadAttention Multiply Nadam Normalization Precision RMSprop
        RandomFlip RandomRotation RandomZoom ReLU Recall RepeatVector Rescaling Reshape Resizing SGD
        SeparableConv2D SimpleRNN Softmax TensorBoard TextVectorization TimeDistributed UpSampling2D
        ZeroPadding2D adapt add_loss clone_model compute_loss compute_mask dilation_rate export get_layer
        image_dataset_from_directory initial_state kernel_constraint kernel_regularizer load_weights
        loss_weights mask_zero pad_sequences recurrent_dropout return_state text_dataset_from_directory
        timeseries_dataset_from_array train_on_batch train_step trainable
        """,
    )
)
"""Names that at least two of 147 public programs of Keras use."""


def names_here() -> list[str]:
    return re.findall(r"`(nn\.[\w.]+)`", PAGE)


def test_every_name_on_the_page_exists() -> None:
    for name in names_here():
        reduce(getattr, name.split(".")[1:], nn)


def test_the_page_has_what_programs_use() -> None:
    told = set(re.findall(r"`(\w+)=?`", PAGE))
    assert not sorted(USED - told)
    assert len(set(names_here())) > 120


def rows() -> list[tuple[str, list[str]]]:
    """Return each class and reader of Keras on the page with the names that stand beside it."""
    found = []
    for line in PAGE.splitlines():
        keras, _, here = line.strip("| ").partition(" | ")
        names = re.findall(r"`(nn\.[\w.]+)`", here)
        words = re.findall(r"`(\w+)`", keras) if names else []
        found += [(word, names) for word in words if word[0].isupper() or word.endswith(("_directory", "_array", "_sequences"))]
    return found


@pytest.mark.parametrize(("keras", "names"), rows())
def test_a_name_of_keras_is_answered_with_the_one_on_the_page(keras: str, names: list[str]) -> None:
    assert name_here("nn", keras) in names


def test_what_has_no_counterpart_has_none() -> None:
    """Under that name, with or without a word behind it, as class or as word."""
    found = {}
    for name, here in MEANT.items():
        if here.startswith("a class of your own, derived from "):
            package = reduce(getattr, here.rpartition(".")[0].split("nn.")[1].split("."), nn)
            known = [*package.__all__, *getattr(package, "WORDS", ())]
            alike = [each for each in known if re.sub("_|loss$|optimizer$", "", each.lower()) == name.lower()]
            if alike:
                found[name] = ", ".join(alike)
    told = ", ".join(f"{name} ({here})" for name, here in found.items())
    assert not found, f"nn/keras_names.py and docs/from-keras.md say of {told} that it has no counterpart, and now it has"


def test_every_answer_exists() -> None:
    for answer in re.findall(r"nn\.[\w.]*\w|\S+", " ".join(MEANT.values())):
        if re.fullmatch(r"nn\.[\w.]+", answer):
            reduce(getattr, answer.split(".")[1:], nn)


@pytest.mark.parametrize(
    ("package", "name", "here"),
    [
        ("loss", "MeanSquaredError", "nn.loss.MSELoss"),
        ("metric", "MeanSquaredError", "nn.metric.MeanSquareError"),
        ("metric", "mean_absolute_error", "nn.metric.MeanAbsoluteError"),
        ("gradient_descent", "Adam", "nn.gradient_descent.ADAMOptimizer"),
        ("activation", "relu", "nn.activation.ReLU"),
        ("activation", "swish", "nn.activation.SiLU"),
        ("initializer", "RandomNormal", "nn.initializer.Normal"),
        ("regularizer", "l2", "nn.regularizer.L2"),
        ("constraint", "max_norm", "nn.constraint.MaxNorm"),
        ("callback", "ReduceLROnPlateau", "nn.callback.ReduceOnPlateau"),
        ("dataset", "fashion_mnist", "nn.dataset.FashionMNIST"),
        ("layer", "StringLookup", "nn.dataset.transforms.StringLookup"),
        ("layer", "ELU", "nn.layer.Activation(nn.activation.ELU())"),
        ("function", "relu", "nn.activation.ReLU"),
        ("function", "reduce_mean", "nn.function.mean"),
        ("function", "split", "slices, x[..., :n] and x[..., n:]"),
        ("function", "abs", "nn.function.absolute"),
        (
            "function",
            "arange",
            "np.arange: arrays stand for values; learned positions are nn.layer.Parameter([steps, features])(x)",
        ),
        ("layer", "Linear", "nn.layer.Dense"),
        ("layer", "Identity", "nn.layer.Activation(nn.activation.Linear())"),
        ("loss", "CrossEntropyLoss", "nn.loss.Cross_Entropy_With_Softmax"),
        ("metric", "sparse_categorical_accuracy", "nn.metric.CategoricalAccuracy"),
        ("dataset.mnist", "load_data", "load() of a data set, as in nn.dataset.MNIST().load()"),
    ],
)
def test_each_package_answers(package: str, name: str, here: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"^module 'nn.{package}' has no attribute '{name}'; here it is {re.escape(here)}$"
    ):
        getattr(reduce(getattr, package.split("."), nn), name)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: nn.layer.Dense(3, input_shape=(4,)), "a model has the shape of its samples"),
        (lambda: nn.layer.Conv2D(3, data_format="channels_last"), "channels come last, always"),
        (lambda: nn.layer.LSTM(3, dropout=0.1), r"SpatialDropout\(rate\) in front of the layer does it"),
        (lambda: nn.layer.Dropout(0.5, seed=1), "draws are keyed by the seed of the model"),
        (lambda: nn.loss.Cross_Entropy(from_logits=True), "losses of scores are classes of their own"),
        (lambda: nn.gradient_descent.SGDOptimizer(lr=0.1), "did you mean 'learn_rate'"),
        (lambda: nn.model.SequentialModel([-1, 4]).fit(np.eye(4), y=[1]), "it is 'label'"),
        (lambda: nn.model.SequentialModel([-1, 4]).predict(np.eye(4), verbose=0), "nothing is shown; leave it out"),
        (lambda: nn.model.SequentialModel([-1, 4], name="a"), "leave it out elsewhere"),
        (lambda: nn.model.Model.load("a", compile=False), "leave it out"),
        (lambda: nn.layer.GRU(3)(nn.Input([-1, 5, 4]), mask=None), "A call of GRU has no argument 'mask'.*a mask comes with"),
        (
            lambda: nn.layer.Dense(3)(nn.Input([-1, 4]), mask=None),
            "without named arguments, got mask; a mask comes with its value",
        ),
        (lambda: nn.layer.MultiHeadAttention(2, 3)(nn.Input([-1, 5, 4]), use_causal_mask=True), "causal=True"),
    ],
)
def test_an_argument_of_keras_is_answered_with_the_remedy(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


def test_attributes_are_told_by_what_does_the_same() -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    model.compile("sgd", "mse")
    x, texts = nn.Input([-1, 2]), nn.dataset.transforms.TextVectorization()
    of_values, rule = nn.model.Model(x, nn.layer.Dense(2)(x)), nn.gradient_descent.ADAMOptimizer()
    made = [
        *(model, model.layers[0], rule, model.optimizer, rule.learning_rate, nn.Variable([2]), x, nn.loss.MSELoss()),
        *(nn.metric.Precision(), nn.callback.EarlyStopping(), nn.model.History(), nn.dataset.Digits(), texts, nn.layer.LSTM(2)),
        *(nn.layer.Conv1D(2), nn.layer.Conv2D(2), nn.layer.Conv1DTranspose(2), nn.layer.Conv2DTranspose(2)),
        *(nn.layer.DepthwiseConv1D(2), nn.layer.DepthwiseConv2D(2), nn.layer.SeparableConv1D(2), nn.layer.SeparableConv2D(2)),
        *(nn.layer.Embedding(2, 2), nn.layer.PReLU(), nn.layer.Parameter([2]), nn.layer.RMSNorm(), nn.layer.BatchNorm()),
        *(nn.layer.LayerNorm(), nn.layer.GroupNorm(1), nn.layer.Dense(2), nn.initializer.Zeros(), of_values),
        OwnModel([-1, 2]),
    ]
    rows = {**{key: f"here it is {here}" for key, here in ATTRIBUTES.items()}, **ABSENT}
    assert len(rows) == len(ATTRIBUTES) + len(ABSENT)
    for key, told in rows.items():
        kind, _, name = key.partition(".")
        # Of its class, and of none with a row of its own; a class may have what another one of its kind lacks.
        owners = {
            each: next((base.__name__ for base in type(each).__mro__ if f"{base.__name__}.{name}" in rows), "") for each in made
        }
        item = next((each for each in made if owners[each] == kind and not hasattr(each, name)), None)
        assert item is not None, f"no object lacks {key}"
        with pytest.raises(
            AttributeError, match=rf"^'{type(item).__name__}' object has no attribute '{name}'; {re.escape(told)}$"
        ):
            getattr(item, name)
        for word in re.findall(r"(?<![\w.])([a-z_]+)\(", told):
            assert word in ("len", "layer", "model") or any(hasattr(each, word) for each in (*made, of_values)), told
        for path in re.findall(r"\bnn\.([\w.]+)", told):
            reduce(getattr, path.split("."), nn)
    for item in made:
        with pytest.raises(AttributeError, match=r"^'.*' object has no attribute 'quite_unknown'$"):
            item.quite_unknown  # noqa: B018
    with pytest.raises(TypeError, match=r"TextVectorization\(\) is called by data sets, .*; apply\(texts\) returns numbers"):
        texts(["a b"])


class OwnModel(nn.model.Model):
    """A model of one's own, which has no list of layers."""

    def call(self, x: nn.value.Value) -> nn.value.Value:
        return nn.layer.Dense(2)(x)


def test_a_model_is_told_of_methods_that_it_has_itself() -> None:
    """A list that can be popped, or `add`, is told to models that are a list of layers, and to no others."""
    x = nn.Input([-1, 2])
    for model in (nn.model.SequentialModel([-1, 2]), nn.model.Model(x, nn.layer.Dense(2)(x)), OwnModel([-1, 2])):
        for name in {key.partition(".")[2] for key in (*ATTRIBUTES, *ABSENT) if key.startswith("Network.")}:
            if hasattr(model, name):
                continue
            with pytest.raises(AttributeError) as caught:
                getattr(model, name)
            told = str(caught.value).partition("; ")[2].partition(", with ")[0]
            for path in [] if " of Model(" in told else re.findall(r"(?<![\w.])([a-z_]+(?:\.[a-z_]+)?)\(", told):
                first, _, method = path.partition(".")
                assert first in ("copy", "layer", "model") or hasattr(model, first), told
                assert not method or first == "copy" or hasattr(getattr(model, first), method), told


def test_errors_of_properties_stay_as_they_are() -> None:
    class Own(nn.layer.Dense):
        @property
        def weights(self) -> int:
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match=r"^mine$"):
        Own(2).weights  # noqa: B018
    assert not hasattr(copy.deepcopy(Own(2)), "assigned")


def test_an_attribute_that_cannot_be_set_is_answered_alike() -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    model.compile("sgd", "mse")
    for item in (model.optimizer, model.rule):
        with pytest.raises(AttributeError, match=r"'lr' that can be set; here it is learning_rate, which can be set$"):
            item.lr = 0.1
    model.optimizer.learning_rate = 0.25
    assert model.optimizer.learning_rate == 0.25 == pickle.loads(pickle.dumps(model.rule.learning_rate))
    assert type(pickle.loads(pickle.dumps(model.rule.learning_rate))) is float


def test_names_of_torch_are_answered_by_nn_itself() -> None:
    for name, here in {
        "Linear": "nn.layer.Dense",
        "Module": "nn.model.Model",
        "BatchNorm2d": "nn.layer.BatchNorm",
        "BCEWithLogitsLoss": "nn.loss.Binary_Cross_Entropy",
        "functional": "nn.function",
        "ModuleList": "a list in an attribute of the layer or model",
        "save": "nn.model.Model.save",
        "manual_seed": "the argument 'seed' of a model, or of fit()",
        "Ftrl": "a class of your own, derived from nn.gradient_descent.IGradientDescent",
    }.items():
        with pytest.raises(AttributeError, match=rf"^module 'nn' has no attribute '{name}'; here it is {re.escape(here)}$"):
            getattr(nn, name)


@pytest.mark.parametrize(
    ("argument", "word", "here"),
    [
        ("loss", "bce", "binary_crossentropy"),
        ("loss", "BCEWithLogitsLoss", "binary_crossentropy_with_sigmoid"),
        ("metrics", "acc", "accuracy"),
        ("metrics", "sparse_categorical_accuracy", "accuracy"),
        ("metrics", "top_k_categorical_accuracy", "top_k_accuracy"),
    ],
)
def test_a_word_of_keras_is_answered_with_the_word_here(argument: str, word: str, here: str) -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    given = {"loss": "mse", argument: [word] if argument == "metrics" else word}
    with pytest.raises(ValueError, match=rf"'{argument}' has no word '{word}'; write '{here}'$"):
        model.compile("sgd", **given)


def test_hooks_of_keras_that_never_run_are_warned_of() -> None:
    with pytest.warns(OverrideWarning) as caught:

        class Own(nn.callback.Callback):
            def on_train_batch_end(self, batch: int, logs: object = None) -> None:
                pass

            def on_test_begin(self, logs: object = None) -> None:
                pass

        class Step(nn.model.Model):
            def train_step(self, data: object) -> None:
                pass

            def call(self, x: nn.Value) -> nn.Value:
                return x

    told = {str(each.message) for each in caught}
    assert told == {
        "Own.on_train_batch_end() is called by nothing here; its name is on_batch_end(batch, logs)",
        "Own.on_test_begin() is called by nothing here; evaluate() tells no callback",
        "Step.train_step() is called by nothing here; add_loss() and loops of compute_gradients() do what it is for",
    }
    assert {each.filename for each in caught} == {__file__}


def test_values_under_the_names_of_such_hooks_are_the_authors_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverrideWarning)

        class Own(nn.callback.Callback):
            on_train_batch_end = 3

    assert Own().on_train_batch_end == 3


def test_a_class_for_another_library_is_told_what_to_define() -> None:
    class Net(nn.model.Model):
        def forward(self, x: nn.Value) -> nn.Value:
            return x

    class Count(nn.metric.Metric):
        def update_state(self, label: object, prediction: object) -> None:
            pass

        def result(self) -> float:
            return 0.0

    with pytest.raises(TypeError, match=r"^Net must define call\(\), .* leaves to it; forward\(\) is call\(\) here$"):
        Net()
    with pytest.raises(TypeError, match=r"^Count must define reset\(\), update\(\), .*; update_state\(\) is update\(\) here$"):
        Count()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: nn.Input((None,), dtype="int64"),
            r"^Input\(\) has no argument 'dtype', but shape, name; inputs are numbers of any",
        ),
        (lambda: nn.Input(shape=(3,), batch_size=4), "'shape' is that of one sample$"),
        (
            lambda: nn.model.SequentialModel(layers=[nn.Input((4,))]),
            r"got an Input; .* of the model: SequentialModel\(\[-1, 4\], layers\)$",
        ),
        (
            lambda: nn.model.SequentialModel([-1, 4]).compile("sgd", lambda y, p: p),
            r"; or give its value to add_loss\(\) of Model",
        ),
    ],
)
def test_what_programs_for_keras_begin_with_is_answered(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: nn.loss.MSELoss()(np.eye(2), np.eye(2)), r"^MSELoss is not called: compile\(optimizer, loss\) takes it"),
        (lambda: nn.metric.Precision()(np.eye(2), np.eye(2)), r"^Precision is not called: update\(label, prediction\) takes"),
        (lambda: nn.activation.ReLU()(np.eye(2)), "^ReLU is called on a value of a graph, got ndarray$"),
    ],
)
def test_parts_that_others_call_on_arrays_say_what_computes_them(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


def test_variables_take_initialisers_by_their_words() -> None:
    assert isinstance(nn.Variable([2], "zeros").initializer, nn.initializer.Zeros)
    with pytest.raises(ValueError, match=r"^Variable 'initializer' must be one of .*did you mean 'zeros'\?$"):
        nn.Variable([2], "zeross")


@pytest.mark.parametrize("name", ["epoch", "epochs"])
@pytest.mark.parametrize("count", [0, -1, 1.5, "3", True])
def test_fit_refuses_what_is_no_number_of_epochs(name: str, count: object) -> None:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises((TypeError, ValueError), match=rf"^fit\(\) '{name}' must be a positive integer, got {count!r}$"):
        model.fit(np.eye(4), np.ones((4, 2)), verbose=0, **{name: count})
    assert model.epochs_trained == 0


def test_a_monitor_of_one_of_several_outputs_is_hinted_at() -> None:
    with pytest.raises(ValueError, match=r"give mode='min' or 'max'; did you mean 'val_kind_accuracy'\?$"):
        nn.callback.EarlyStopping("val_kind_acc")
    with pytest.raises(ValueError, match=r"give mode='min' or 'max'$"):
        nn.callback.EarlyStopping("nonsense")


def test_what_is_no_text_is_no_near_miss_of_a_word() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "pre"

    with pytest.raises(ValueError, match=r"'padding' must be one of pre, post, got Odd pre$"):
        nn.dataset.pad_sequences([[1]], padding=Odd())  # type: ignore[arg-type]


def test_half_a_character_is_no_text_for_byte_pairs() -> None:
    with pytest.raises(ValueError, match=r"must be a text that UTF-8 has, got half a character, '\\ud800', at position 2$"):
        nn.dataset.BytePairs().encode("ab\ud800")

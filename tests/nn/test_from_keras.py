"""docs/from-keras.md: every name of nn in it exists, and what at least two public programs use stands in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

import nn
from nn.keras_names import ATTRIBUTES, MEANT, name_here
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


def test_every_answer_exists() -> None:
    for answer in " ".join(MEANT.values()).split():
        if answer.startswith("nn."):
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
    x, texts = nn.Input([-1, 2]), nn.dataset.transforms.TextVectorization()
    of_values = nn.model.Model(x, nn.layer.Dense(2)(x))
    makers = {"Network": model, "Layer": model.layers[0], "Variable": nn.Variable([2]), "_OfTexts": texts}
    for key, here in ATTRIBUTES.items():
        kind, _, name = key.partition(".")
        item, kind = makers[kind], type(makers[kind]).__name__
        with pytest.raises(AttributeError, match=rf"^'{kind}' object has no attribute '{name}'; here it is {re.escape(here)}$"):
            getattr(item, name)
        for word in re.findall(r"\b([a-z_]+)\(", here):
            assert word in ("len", "deepcopy", "layer", "argmax") or any(
                hasattr(each, word) for each in (*makers.values(), of_values)
            ), here
    for item in makers.values():
        with pytest.raises(AttributeError, match=r"^'.*' object has no attribute 'quite_unknown'$"):
            item.quite_unknown  # noqa: B018
    with pytest.raises(TypeError, match=r"TextVectorization\(\) is called by data sets, .*; apply\(texts\) returns numbers"):
        texts(["a b"])


def test_errors_of_properties_stay_as_they_are() -> None:
    class Own(nn.layer.Dense):
        @property
        def weights(self) -> int:
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match=r"^mine$"):
        Own(2).weights  # noqa: B018
    assert not hasattr(copy.deepcopy(Own(2)), "assigned")

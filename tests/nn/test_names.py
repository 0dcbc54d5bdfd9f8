"""Words for built-in parts: each makes its part wherever one is taken, editors know all of them, and a wrong one is named."""

from __future__ import annotations

import typing
from collections.abc import Callable

import numpy as np
import pytest

from nn import activation, gradient_descent, initializer, layer, loss, metric, model, names

TYPES = {
    "nn.activation": names.ActivationName,
    "nn.gradient_descent": names.OptimizerName,
    "nn.initializer": names.InitializerName,
    "nn.loss": names.LossName,
    "nn.metric": names.MetricName,
}
EVERYTHING = [(package, word) for package, kind in TYPES.items() for word in typing.get_args(kind)]


@pytest.mark.parametrize(("package", "word"), EVERYTHING)
def test_every_word_makes_a_part(package: str, word: str) -> None:
    """In any case; so does the name of its class."""
    kind = names.class_of("Test", "part", word, package)
    assert (
        kind is names.class_of("Test", "part", kind.__name__, package) is names.class_of("Test", "part", word.upper(), package)
    )
    assert type(names.part("Test", "part", word, kind, package)) is kind and kind.__module__.startswith(package)


@pytest.mark.parametrize("package", TYPES)
def test_editors_know_the_words_that_are_taken(package: str) -> None:
    with pytest.raises(ValueError, match="'part' must be one of") as caught:
        names.class_of("Test", "part", "?", package)
    assert str(caught.value).partition(" one of ")[2].partition(", got")[0].split(", ") == list(typing.get_args(TYPES[package]))


def test_words_where_parts_are_taken() -> None:
    """A model of words is the model of their parts, bit for bit, and its file says the same."""
    x, y = np.eye(6), [0, 1, 2, 0, 1, 2]
    words = model.SequentialModel([-1, 6], [layer.Dense(8, "relu", kernel_initializer="he_uniform"), layer.Dense(3, "softmax")])
    words.compile("adam", "crossentropy", ["accuracy", "mse"])
    dense = layer.Dense(8, activation.ReLU(), kernel_initializer=initializer.HeUniform())
    parts = model.SequentialModel([-1, 6], [dense, layer.Dense(3, activation.Softmax())])
    parts.setup(loss.Cross_Entropy(), metric.CategoricalAccuracy(), metric.MeanSquareError())
    parts.compile(gradient_descent.ADAMOptimizer)
    words.fit(x, y, epochs=3, verbose=0)
    parts.fit(x, y, epoch=3, verbose=0)
    assert words.to_bytes() == parts.to_bytes() == model.Model.from_bytes(words.to_bytes()).to_bytes()
    assert (
        repr(model.DNN(activation="gelu").activation)
        == repr(model.LeNet5(activation="gelu").activation)
        == repr(activation.GELU())
    )
    two = model.SequentialModel([-1, 6], [layer.Dense(1)])
    two.compile("sgd", "binary_crossentropy_with_sigmoid", ["accuracy"])
    assert isinstance(two.metrics[0], metric.BinaryAccuracy)


READY = model.SequentialModel([-1, 6], [layer.Dense(3)])


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (r"Dense 'activation' must be one of elu, .*, got 'rellu'; did you mean 'relu'\?", lambda: layer.Dense(2, "rellu")),  # type: ignore[arg-type]
        (r"compile\(\) 'optimizer' must be one of .*; did you mean 'adam'\?", lambda: READY.compile("adm")),  # type: ignore[arg-type]
        (r"setup\(\) 'loss' must be one of .*; did you mean 'huber'\?", lambda: READY.setup("hubert")),  # type: ignore[arg-type]
        (r"setup\(\) 'metrics' must be one of .*; did you mean 'accuracy'\?", lambda: READY.setup("mse", "acuracy")),  # type: ignore[arg-type]
        (r"compile\(\) 'metrics' must come with a 'loss'", lambda: READY.compile("adam", metrics=["accuracy"])),
        (r"fit\(\) takes 'epoch' or 'epochs', which is the same, got both, 1 and 2", lambda: READY.fit([], [], 1, epochs=2)),
    ],
)
def test_wrong_words_are_named(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"compile\(\) 'metrics' must be a list, got 'accuracy'; write \[...\]"):
        READY.compile("adam", "mse", "accuracy")

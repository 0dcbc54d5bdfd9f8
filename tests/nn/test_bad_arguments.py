"""Each argument of each public part of `nn` gets values of wrong kinds: an error of ours names it, or the part takes the value.

So do samples. Values that parts take are not looked at in general: `tests/nn/test_refused_arguments.py` names what must not be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nn
from nn.dataset import transforms

from ..bad_arguments import Odd, arguments, faults

PACKAGES = (
    *(nn.layer, nn.activation, nn.loss, nn.metric, nn.gradient_descent, nn.initializer, nn.regularizer, nn.constraint),
    *(nn.callback, nn.model, transforms),
)
DATASETS = (
    "ArrayDataset",
    "ClientFolders",
    "CSVDataset",
    "Digits",
    "ImageFolder",
    "LEAF",
    "MNIST",
    "NpzDataset",
    "SimData",
    "TextFolder",
)
#: Of a base class for extensions, or of parts that only the engine makes.
LEFT_OUT = frozenset({"CachedDecoder", "Fragment", "Model", "ModelFileError", "Functional"})


GIVEN: dict[str, Any] = {
    "shape": [2, 3],
    "dims": (2, 1),
    "layer": nn.layer.LSTM(3),
    "function": lambda x: x,
    "activation": "relu",
    "rule": nn.gradient_descent.SGDOptimizer(),
    "boundaries": [3],
    "rates": [0.1, 0.2],
    "steps": 5,
    "metric": nn.metric.Precision(),
    "path": "x",
    "directory": "x",
    "schedule": lambda epoch: 0.1,
    "lengths": [2, 4],
    "height_factor": 0.1,
    "width_factor": 0.1,
    "factor": 0.5,
    "momentum": 0.5,
    "rate": 0.1,
    "label": "y",
    "x": np.eye(4),
    "y": np.arange(4),
    "alpha": 0.5,
}
#: Arguments whose error is about another one with which they belong together.
TOGETHER = {
    ("Uniform", "low"): "high",
    ("MinMaxNorm", "min_value"): "max_value",
    ("SequentialModel", "layers"): "layer",
    ("EarlyStopping", "monitor"): "small or large",
    ("ReduceOnPlateau", "monitor"): "small or large",
}


def parts() -> Iterator[tuple[type[Any], str]]:
    kinds = [getattr(package, name) for package in PACKAGES for name in sorted(package.__all__)]
    kinds += [getattr(nn.dataset, name) for name in DATASETS]
    for kind in (*kinds, nn.Input, nn.Variable, nn.dataset.pad_sequences):
        if inspect.isabstract(kind) or not callable(kind) or kind.__name__ in LEFT_OUT or not kind.__name__[0].isupper():
            continue
        yield from ((kind, name) for name in arguments(kind))


def needed(kind: type[Any]) -> dict[str, Any]:
    """Return the arguments without which a part cannot be made."""
    required = [each.name for each in inspect.signature(kind).parameters.values() if each.default is each.empty]
    found = {name: GIVEN.get(name, 2) for name in required}
    return {**found, "steps": [transforms.Shuffle()]} if kind is transforms.Chain else found


KINDS = list(dict.fromkeys(kind for kind, _ in parts()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_argument_of_a_wrong_kind_is_named(kind: type[Any]) -> None:
    found = [
        fault
        for each, name in parts()
        if each is kind
        for fault in faults(
            kind, name, needed(kind), [TOGETHER[kind.__name__, name]] if (kind.__name__, name) in TOGETHER else ()
        )
    ]
    assert not found, "\n".join(found)


X, Y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])


def made() -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(2, "softmax")])
    model.compile("sgd", "categorical_crossentropy")
    return model


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: nn.layer.Normalization(axis=b"ab"), r"'axis' must be an integer of at least -32, got b'ab'"),
        (lambda: nn.layer.Normalization(axis=0), r"'axis' must name axes behind 0, the batch, got 0"),
        (lambda: nn.layer.Reshape({2, 3}), r"Reshape 'shape' must be a list of positive integers with .*, got \{2, 3\}"),
        (lambda: nn.gradient_descent.Piecewise([3], b"ab"), r"Piecewise 'rates' must be a list of numbers, got b'ab'"),
        (lambda: transforms.Buckets({20, 50}), r"Buckets 'lengths' must be a list of numbers of steps, got \{"),
        (lambda: transforms.StringLookup(vocabulary={"a": 1}), r"'vocabulary' must be a list of texts, got \{'a': 1\}"),
        (lambda: transforms.TextVectorization(standardize=0), r"'standardize' must be one of .*, got int 0"),
        (lambda: transforms.Normalize(mean=True), r"'mean' must be a number or a list of numbers, got True"),
        (lambda: transforms.Normalize(std=np.ma.array([1.0], mask=[True])), r"Normalize 'std' must not be masked, got 1"),
        (lambda: nn.callback.ModelCheckpoint("m", monitor=3), r"ModelCheckpoint 'monitor' must be the name of a result"),
        (lambda: nn.callback.ModelCheckpoint("m", mode="mim"), r"ModelCheckpoint 'mode' must be one of auto, min, max"),
        (lambda: nn.callback.CSVLogger("a\0b"), r"CSVLogger 'path' must be the path of a file, got 'a\\x00b'"),
        (lambda: nn.model.SequentialModel([-1, 4], dtype=None), r"'dtype' must be float32 or float64, got None"),
        (lambda: nn.model.SequentialModel([-1, 4], "ab"), r"SequentialModel 'layers' must be a list of layers, got 'ab'"),
        (lambda: nn.dataset.ArrayDataset(X, Y, plan="nowhere"), r"ArrayDataset 'plan' must be a Plan, .*got 'nowhere'"),
        (lambda: transforms.Normalize()(Odd(), Y, X, Y), r"Normalize 'train_x' must be an array with samples, got Odd"),
        (lambda: transforms.Normalize()(X[None], Y[:1], X, Y), r"Normalize needs training and test samples of one shape each"),
        (lambda: transforms.OneHot()(X, Y, X, 3), r"OneHot 'test_y' must be an array with samples, got 3"),
        (lambda: nn.dataset.pad_sequences(np.array(3)), r"pad_sequences\(\) 'sequences' must be lists of numbers, got array"),
        (lambda: nn.layer.Normalization().adapt([[1, 2], [3]]), r"adapt\(\) 'data' must be an array, or lists of one length"),
        (
            lambda: nn.layer.Normalization().adapt(np.ma.array(X, mask=X > 0)),
            r"adapt\(\) 'data' must not be masked, got 4 masked of 16 numbers",
        ),
        (
            lambda: made().compile("adam", lambda y, p: (y - p) ** 2),
            r"compile\(\) 'loss' must be an instance of Loss, got the function <lambda>; derive a class from nn.loss.Loss, ",
        ),
        (
            lambda: made().compile("adam", "mse", [max]),
            r"'metrics' must be an instance of Metric, got the function max; derive a class from nn.metric.Metric, ",
        ),
        (lambda: made().set_weights(None), r"set_weights\(\) 'weights' must be a list of arrays, got None"),
        (lambda: made().fit([[1, 2], [3]], Y, validation_split=0.5), r"fit\(\) 'x' must be an array, or lists of one length"),
        (
            lambda: made().fit(X, Y, class_weight={0: 1e300}, verbose=0),
            r"'class_weight\[0\]' must be a number that float32 has, got 1e\+300",
        ),
        (
            lambda: made().test_on_batch(X / 0.0, Y),
            r"test_on_batch\(\) 'x' must hold finite numbers: sample 0 of the batch has inf",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_was_taken_or_told_in_the_words_of_numpy_is_refused_by_name(call: Callable[[], object], told: str) -> None:
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=told):
        call()


def test_numbers_of_numpy_are_numbers() -> None:
    assert nn.layer.Conv2D(2, padding=np.int64(1)).padding == 1
    assert nn.layer.UpSampling(np.int64(2)).size == 2
    assert nn.layer.Normalization(axis=np.int64(-1)).axis == -1
    assert nn.layer.GroupNorm(np.int64(-1)).groups == -1
    assert transforms.Buckets(np.int64(20)).lengths == (20,)


def test_words_that_come_one_by_one_are_all_taken() -> None:
    assert transforms.StringLookup(vocabulary=(word for word in ("a", "b"))).vocabulary == ("a", "b")


def test_a_frame_goes_through_transforms_of_arrays() -> None:
    frame = pd.DataFrame(X, index=[5, 5, 1, 2])
    train, _, test, _ = transforms.Normalize()(frame, Y, frame, Y)
    assert np.array_equal(train, transforms.Normalize()(X, Y, X, Y)[0]) and np.array_equal(train, test)


def test_validation_data_that_are_not_finite_are_refused_before_an_epoch_is_trained() -> None:
    model = made()
    before = model.get_weights()
    wrong = X[:3].copy()
    wrong[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"'validation_data' must hold finite numbers: sample 2 has nan at x\[2, 1\]"):
        model.fit(X, Y, validation_data=(wrong, Y[:3]), epochs=1, verbose=0)
    assert model.epochs_trained == 0 and all(map(np.array_equal, before, model.get_weights()))


@pytest.mark.parametrize("path", [3, True, b"x", "", "a\0b", Odd()], ids=repr)
@pytest.mark.parametrize("call", ["save", "save_weights", "load", "export", "plot", "onnx.save", "onnx.load"])
def test_what_is_no_path_is_refused_by_name(call: str, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the number 1, `load` closed the standard output."""
    monkeypatch.chdir(tmp_path)
    model = made()
    calls = {"onnx.save": lambda path: nn.onnx.save(model, path), "onnx.load": nn.onnx.load}
    with pytest.raises(TypeError, match=r"^(nn\.onnx\.)?\w+\(\) 'path' must be the path of a file, got "):
        calls.get(call, getattr(model, call, None))(path)
    assert not [*tmp_path.iterdir()]
    if "load" not in call and call != "plot":
        with pytest.raises(IsADirectoryError, match=r"Is a directory: '\.'$"):
            calls.get(call, getattr(model, call, None))(".")


def test_an_error_of_an_object_that_makes_an_array_of_itself_is_its_own() -> None:
    class Trouble:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise ValueError("my own trouble")

    for given in (Trouble(), [Trouble(), Trouble()]):
        with pytest.raises(ValueError, match=r"^my own trouble$"):
            made().fit(given, Y)

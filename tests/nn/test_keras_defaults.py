"""Defaults of `nn` beside those of Keras's own signatures: docs/deviations.md has a row for each that differs, and no other.

`python -m benchmarks.nn.keras_signatures tests/nn/keras_signatures.json` makes the file of signatures anew.
"""

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import nn
from nn.arguments import did_you_mean
from nn.callback import monitor
from nn.names import class_of
from tests.sources import ROOT

FILE = Path(__file__).with_name("keras_signatures.json")
KERAS: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
G, L, M, C, I = nn.gradient_descent, nn.layer, nn.metric, nn.callback, nn.initializer  # noqa: E741

PAIRS: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("Adadelta", G.AdaDeltaOptimizer, {}), ("Adagrad", G.AdaGradOptimizer, {}), ("Adam", G.ADAMOptimizer, {}),
    ("AdamW", G.ADAMWOptimizer, {}), ("AveragePooling2D", L.AveragePool, {}), ("BatchNormalization", L.BatchNorm, {}),
    ("BinaryAccuracy", M.BinaryAccuracy, {}), ("CategoricalCrossentropy", nn.loss.Cross_Entropy_With_Softmax, {}),
    ("Concatenate", L.Concatenate, {}), ("Constant", I.Constant, {}), ("Conv1D", L.Conv1D, {"kernel": 2}),
    ("Conv2D", L.Conv2D, {"kernel": 2}), ("CosineDecay", G.Cosine, {"rate": 0.1, "steps": 2}),
    ("CSVLogger", C.CSVLogger, {"path": "x"}), ("Dense", L.Dense, {"units": 2}), ("Dropout", L.Dropout, {}),
    ("EarlyStopping", C.EarlyStopping, {}), ("Embedding", L.Embedding, {"input_dim": 2, "output_dim": 2}),
    ("ExponentialDecay", G.ExponentialDecay, {"rate": 0.1, "steps": 2}), ("FalseNegatives", M.FalseNegative, {}),
    ("FalsePositives", M.FalsePositive, {}), ("GRU", L.GRU, {"units": 2}), ("Huber", nn.loss.HuberLoss, {}),
    ("Lamb", G.LAMBOptimizer, {}), ("LayerNormalization", L.LayerNorm, {}), ("LeakyReLU", nn.activation.LeakReLU, {}),
    ("LSTM", L.LSTM, {"units": 2}), ("MaxPooling2D", L.MaxPool, {}), ("ModelCheckpoint", C.ModelCheckpoint, {"path": "x"}),
    ("MultiHeadAttention", L.MultiHeadAttention, {"num_heads": 2, "key_dim": 2}), ("Orthogonal", I.Orthogonal, {}),
    ("Precision", M.Precision, {}), ("RandomUniform", I.Uniform, {}), ("Recall", M.Recall, {}),
    ("ReduceLROnPlateau", C.ReduceOnPlateau, {}), ("Reshape", L.Reshape, {"shape": [2]}), ("RMSprop", G.RMSPropOptimizer, {}),
    ("SGD", G.SGDOptimizer, {}), ("SimpleRNN", L.SimpleRNN, {"units": 2}), ("TopKCategoricalAccuracy", M.TopKAccuracy, {}),
    ("TrueNegatives", M.TrueNegative, {}), ("TruePositives", M.TruePositive, {}), ("TruncatedNormal", I.TruncatedNormal, {}),
]  # fmt: skip
"""Keras's class, ours, and what ours cannot do without."""

BY_WORD = {"activation": "nn.activation", "initializer": "nn.initializer"}


def plain(name: str, value: object) -> object:
    """A default as both sides are compared by: names of classes for words, one number for equal ones, 0 for no decay."""
    for kind, package in BY_WORD.items():
        if name.endswith(kind) and isinstance(value, str):
            return class_of("Keras", name, value.replace("random_", ""), package).__name__
    if name.endswith(tuple(BY_WORD)) and value is not None:
        return type(value).__name__
    if isinstance(value, (list, tuple)) and value and len(set(value)) == 1:
        return value[0]
    if name == "monitor":
        return monitor.of_keras(str(value))
    return 0 if name == "weight_decay" and value is None else value


def parsed(text: str) -> object:
    return ast.literal_eval(text)


def differing() -> Iterator[str]:
    """The rows of the table in docs/deviations.md."""
    for theirs, ours, needed in PAIRS:
        maker = inspect.getattr_static(ours, "__init__")
        aliases = getattr(maker, "aliases", {})
        known, item = inspect.signature(ours).parameters, ours(**needed)
        config = item.get_config()
        for argument, text in KERAS["signatures"][theirs].items():
            own = aliases.get(argument, argument)
            if own not in known or own == "name":
                continue
            mine = known[own].default
            if mine is inspect.Parameter.empty:
                mine = "required"
            elif mine is None and own.endswith(tuple(BY_WORD)):
                mine = config[own]
            mine = plain(own, mine)
            other = text if text == "required" else plain(own, parsed(text))
            if mine in (None, "Linear") and other in (None, "Linear"):
                continue
            if mine != other:
                shown = own if own == argument else f"{argument}`, `{own}"
                yield f"| `{theirs}` | `{ours.__name__}` | `{shown}` | {text} | {mine} |"


def test_the_table_of_defaults_has_every_one_that_differs_from_keras_and_no_other() -> None:
    lines = (ROOT / "docs" / "deviations.md").read_text("utf-8").splitlines()
    head = "| Keras's class | Here | Argument | Keras's default | Default here |"
    assert head in lines, f"docs/deviations.md lacks the table that begins with {head}{did_you_mean(head, lines)}"
    start = lines.index(head) + 2
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    assert lines[start:end] == list(differing())
    assert f"Keras {KERAS['keras']}" in "\n".join(lines)


def test_pairs_cover_all_signatures() -> None:
    assert {theirs for theirs, _, _ in PAIRS} == KERAS["signatures"].keys()


@pytest.mark.skipif(find_spec("keras") is None, reason="Keras is of the benchmarks' environment")
def test_the_stored_signatures_are_those_of_the_installed_keras() -> None:
    from importlib.metadata import version

    from benchmarks.nn.keras_signatures import signatures

    found = find_spec("keras")
    assert found is not None and found.origin is not None
    if version("keras") != KERAS["keras"]:
        pytest.skip(f"the signatures are those of {KERAS['keras']}, make them anew for {version('keras')}")
    assert signatures(Path(found.origin).parent / "src") == KERAS["signatures"]

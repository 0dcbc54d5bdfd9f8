"""Runner of the programs: lines that differ, and losses of 20 steps from the same weights, beside those of Keras.

    python -m benchmarks.keras_programs [program ...] [--lines]

Keras runs on torch. Its program runs a second time from weights 1e-8 apart: so far do its own losses depend on rounding.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nn
from nn.arrays import Array

os.environ.setdefault("KERAS_BACKEND", "torch")

STEPS = 20
CLOSE, STEADY = 1e-4, 1e-5
"""How far losses may lie from Keras's, and Keras's from those that it has when it begins `APART`."""
APART = 1e-8
LINES = {
    "mnist_convnet": 4,
    "digits_batch_norm": 4,
    "structured_data": 30,
    "bidirectional_lstm": 11,
    "timeseries": 5,
    "autoencoder": 14,
    "siamese": 16,
    "tickets": 19,
    "transfer": 7,
    "miniature_gpt": 7,
    "imbalanced": 3,
    "vae": 20,
    "augmentation": 9,
    "segmentation": 9,
    "captcha": 9,
}
"""Lines of each program that may be others than in Keras's."""
HERE = Path(__file__).parent


def main() -> int:
    """Print the table; return 1 where a figure is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keras_programs", description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", default=list(LINES), help=f"{', '.join(LINES)} (default: all)")
    parser.add_argument("--lines", action="store_true", help="count lines only, which needs no Keras")
    options = parser.parse_args()
    for name in options.programs:
        if name not in LINES:
            parser.error(f"'programs' must be among {', '.join(LINES)}, got {name!r}")
    print(f"{'program':<20} {'lines':>5} {'others':>6} {'limit':>5}" + ("" if options.lines else "   from Keras  Keras apart"))
    missed = False
    for name in options.programs:
        lines, others = changed_lines(name)
        row = f"{name:<20} {lines:5} {others:6} {LINES[name]:5}"
        missed |= others > LINES[name]
        if not options.lines:
            distance, own = compare(name)
            row += f"   {distance:10.1e}   {own:10.1e}"
            missed |= not (distance <= CLOSE and own <= STEADY)
        print(row, flush=True)
    print("missed" if missed else "reached")
    return int(missed)


def changed_lines(name: str) -> tuple[int, int]:
    """Return how many lines with code the program has for Keras, and how many of nn's do not stand in it."""
    theirs, ours = (code_of(HERE / side / f"{name}.py") for side in ("theirs", "ours"))
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    return len(theirs), sum(stop - start for kind, _, _, start, stop in matcher.get_opcodes() if kind in ("replace", "insert"))


def code_of(path: Path) -> list[str]:
    """Return the lines of a program without empty ones."""
    return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def compare(name: str) -> tuple[float, float]:
    """Return the largest difference of the losses of 20 steps: nn's from Keras's, and of Keras begun 1e-8 apart."""
    weights, ours = our_losses(name)
    keras = keras_losses(name, weights, 0.0)
    return distance(ours, keras), distance(keras, keras_losses(name, weights, APART))


def our_losses(name: str) -> tuple[dict[str, Array], list[float]]:
    """Return the first weights of nn's program by their names, and its losses."""
    module = fresh(f"benchmarks.keras_programs.ours.{name}")
    weights = {variable.name: variable.get_value() for variable in module.model.store.everything}
    recorder = Losses()
    module.train([recorder])
    return weights, recorder.found


def fresh(name: str) -> Any:
    """Return a module made anew: the model of one that was run has been trained."""
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference; raise ValueError unless both have the losses of 20 steps."""
    if len(a) != STEPS or len(b) != STEPS:
        raise ValueError(f"a program must make {STEPS} steps, got {len(a)} and {len(b)}")
    return float(np.abs(np.subtract(a, b)).max())


class Losses(nn.callback.Callback):
    """The loss of each batch, from the means over the batches of an epoch."""

    def __init__(self) -> None:
        self.found: list[float] = []
        self.total = 0.0

    def on_epoch_begin(self, epoch: int) -> None:
        self.total = 0.0

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        mean = logs["Loss"]
        self.found.append(mean * (batch + 1) - self.total)
        self.total = mean * (batch + 1)


def keras_losses(name: str, weights: Mapping[str, Array], apart: float) -> list[float]:
    """Return the losses of Keras's program from these weights, by nn's names of variables, plus `apart`."""
    import keras

    keras.utils.set_random_seed(0)
    module = fresh(f"benchmarks.keras_programs.theirs.{name}")
    rows = [(keras_role(each.path), tuple(each.shape), each) for each in module.model.weights]
    given = [(nn_role(key), value.shape, value) for key, value in weights.items()]
    taken = paired(given, rows)
    for value, variable in taken:
        variable.assign(value + np.float32(apart))

    class Recorder(keras.callbacks.Callback):
        found: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            self.model.reset_metrics()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.found.append(float(logs["loss"]))

    recorder = Recorder()
    recorder.found = []
    module.train([recorder])
    return recorder.found


Role = tuple[str, tuple[int, ...], Any]


def paired(ours: Sequence[Role], theirs: Sequence[Role]) -> list[tuple[Any, Any]]:
    """Return pairs of variables of one role and shape, of several in their order; raise ValueError where one is left over."""
    left = list(theirs)
    found = []
    for role, shape, value in ours:
        place = next((i for i, each in enumerate(left) if each[:2] == (role, shape)), None)
        if place is None:
            raise ValueError(f"Keras's model has no variable '{role}' of shape {shape} left: {[each[:2] for each in left]}")
        found.append((value, left.pop(place)[2]))
    if left:
        raise ValueError(f"Keras's model has variables besides: {[each[:2] for each in left]}")
    return found


def keras_role(path: str) -> str:
    """Return what a variable is in its layer, as nn names it."""
    *_, parent, name = path.split("/")
    parts = {"query": "query", "key": "key", "value": "value", "attention_output": "output"}
    return f"{parts[parent]}_{name}" if parent in parts else name


def nn_role(name: str) -> str:
    """Return what a variable is in its layer."""
    return name.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())

"""Time that `buckets` save: texts of 5 to 200 tokens, padded to 200, with them and without, in turns.

    OMP_NUM_THREADS=1 python -m benchmarks.nn.buckets [model ...]

Times are those of the process's processors, medians of rounds, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import psgd

import numpy as np

import nn
from nn.arrays import Array
from nn.layer import LSTM, Add, Dense, Embedding, GlobalAveragePool, LayerNorm, MultiHeadAttention
from nn.model import Model, SequentialModel

WORDS, FEATURES, SHORTEST, LONGEST = 2000, 64, 5, 200
TEXTS, BATCH = 512, 32
LIMITS = [25, 50, 75, 100, 125, 150, 175]


def lstm() -> Model:
    """Return a model that reads texts step by step."""
    layers = [Embedding(WORDS, FEATURES, mask_zero=True), LSTM(FEATURES), Dense(1, "sigmoid")]
    return SequentialModel([-1, None], layers)


def transformer() -> Model:
    """Return a model with two blocks of attention and feed-forward."""
    entry = nn.Input([-1, None])
    x: Any = Embedding(WORDS, FEATURES, mask_zero=True)(entry)
    for _ in range(2):
        x = LayerNorm()(Add()([x, MultiHeadAttention(4, FEATURES // 4)(x)]))
        x = LayerNorm()(Add()([x, Dense(FEATURES)(Dense(4 * FEATURES, "relu")(x))]))
    return Model(entry, Dense(1, "sigmoid")(GlobalAveragePool()(x)))


MODELS: dict[str, Callable[[], Model]] = {"LSTM": lstm, "Transformer": transformer}


def lengths_of(draw: str) -> Array:
    """Return the lengths of texts: equally many of each, or as many from 5 to 10 as from 100 to 200."""
    random = np.random.default_rng(0)
    if draw == "even":
        return random.integers(SHORTEST, LONGEST + 1, TEXTS)
    return np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), TEXTS)).round().astype(int)


def main() -> int:
    """Print the times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="model", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=psgd.positive, default=5, help="rounds in which both take their turn (default 5)")
    options = parser.parse_args()
    for name in options.models:
        if name not in MODELS:
            parser.error(f"'model' must be among {', '.join(MODELS)}, got {name!r}")
    print(f"{'model, lengths':<22} {'task':<9} {'whole':>9} {'buckets':>9}  whole / buckets  differs")
    for name in options.models:
        for draw in ("even", "mostly short"):
            measure(name, draw, options.rounds)
    return 0


def measure(name: str, draw: str, rounds: int) -> None:
    """Print one row for training, scores and predictions."""
    random, lengths = np.random.default_rng(1), lengths_of(draw)
    x = nn.dataset.pad_sequences([random.integers(1, WORDS, length) for length in lengths], LONGEST, padding="post")
    y = random.integers(0, 2, (TEXTS, 1)).astype(np.float32)
    models = [MODELS[name]() for _ in range(2)]
    for model in models:
        model.compile("adam", "binary_crossentropy")
    given: list[dict[str, Any]] = [{}, {"buckets": LIMITS}]
    tasks: dict[str, Callable[[Model, dict[str, Any]], Any]] = {
        "fit": lambda model, more: model.fit(x, y, epochs=1, batch_size=BATCH, verbose=0, **more) and None,
        "evaluate": lambda model, more: model.evaluate(x, y, batch_size=BATCH, **more)["Loss"],
        "predict": lambda model, more: model.predict(x, batch_size=BATCH, **more),
    }
    for task, act in tasks.items():
        # The first round makes the plans.
        times = np.array([[timed(act, *pair) for pair in zip(models, given, strict=True)] for _ in range(rounds + 1)])[1:]
        whole, cut = np.median(times, axis=0)
        found = [act(models[0], more) for more in given] if task != "fit" else [0, 0]
        apart = np.abs(np.subtract(*found)).max()
        ratio = np.median(times[:, 0] / times[:, 1])
        print(f"{name + ', ' + draw:<22} {task:<9} {whole:7.2f} s {cut:7.2f} s  {ratio:15.2f}  {apart:.0e}", flush=True)


def timed(act: Callable[..., object], model: Model, given: dict[str, Any]) -> float:
    """Return the seconds of processors that a task takes."""
    start = time.process_time()
    act(model, given)
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())

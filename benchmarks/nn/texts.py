"""Transforms of texts beside the layers of Keras, which need TensorFlow (`pip install keras tensorflow-cpu`).

    OMP_NUM_THREADS=1 KERAS_BACKEND=tensorflow python -m benchmarks.nn.texts

Times are those of the processor, shortest of several in turns; TensorFlow has one thread. What both give is compared first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array
from nn.dataset.transforms import StringLookup, TextVectorization

ROUNDS, TEXTS, WORDS, LENGTH = 15, 2_000, 5_000, 40


class Case(NamedTuple):
    """One transform on both sides.

    Args:
        data: the texts.
        ours: makes the transform.
        theirs: makes the layer, of `keras.layers`.
        learns: whether learning the vocabulary is measured, in place of looking words up.
    """

    data: Array
    ours: Callable[[], Any]
    theirs: Callable[[Any], Any]
    learns: bool = False


def texts() -> Array:
    """Return texts of 5 to 60 words, each as frequent as in a language, with capitals and full stops."""
    draw = np.random.default_rng(0)
    letters = draw.integers(ord("a"), ord("z") + 1, (WORDS, 7), dtype=np.uint8)
    words = [row.tobytes().decode()[: 2 + number % 6] + str(number) for number, row in enumerate(letters)]
    shares = 1 / np.arange(1, WORDS + 1)
    made = [
        " ".join(words[place] for place in draw.choice(WORDS, count, p=shares / shares.sum())).capitalize() + "."
        for count in draw.integers(5, 61, TEXTS)
    ]
    return np.array(made, dtype=object)


def cases() -> dict[str, Case]:
    """Return the cases by name."""
    lines = texts()
    words = np.array(" ".join(lines[: TEXTS // 2]).lower().split(), dtype=object)
    few = sorted(set(words[:2_000]))[:200]
    return {
        "StringLookup": Case(words, StringLookup, lambda layers: layers.StringLookup()),
        "StringLookup one_hot": Case(
            words,
            lambda: StringLookup(vocabulary=few, output_mode="one_hot"),
            lambda layers: layers.StringLookup(vocabulary=few, output_mode="one_hot"),
        ),
        "StringLookup adapt": Case(words, StringLookup, lambda layers: layers.StringLookup(), learns=True),
        "TextVectorization": Case(
            lines,
            lambda: TextVectorization(output_sequence_length=LENGTH),
            lambda layers: layers.TextVectorization(output_sequence_length=LENGTH),
        ),
        "TextVectorization count": Case(
            lines,
            lambda: TextVectorization(500, output_mode="count"),
            lambda layers: layers.TextVectorization(500, output_mode="count"),
        ),
        "TextVectorization tf_idf": Case(
            lines,
            lambda: TextVectorization(500, output_mode="tf_idf"),
            lambda layers: layers.TextVectorization(500, output_mode="tf_idf"),
        ),
        "TextVectorization adapt": Case(
            lines,
            lambda: TextVectorization(output_sequence_length=LENGTH),
            lambda layers: layers.TextVectorization(output_sequence_length=LENGTH),
            learns=True,
        ),
    }


def main() -> int:
    """Print the times of both and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.parse_args()
    try:
        import tensorflow as tf
    except ImportError as error:
        parser.error(f"needs TensorFlow (pip install keras tensorflow-cpu): {error}")

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import keras

    print(f"{'transform':<26} {'nn':>9} {'Keras':>9}  Keras / nn")
    for name, case in cases().items():
        ours, theirs = case.ours(), case.theirs(keras.layers)
        known = getattr(ours, "vocabulary", None) is not None
        if not known:
            ours.adapt(case.data)
            theirs.adapt(case.data)
        run, other = _runs(case, ours, theirs)
        if not case.learns:
            found, expected = run(), np.asarray(other())
            print(f"{name:<26} agrees: {_agree(found, expected)}")
        times = np.array([[_timed(run), _timed(other)] for _ in range(ROUNDS)]).min(axis=0)
        print(f"{name:<26} {times[0] * 1e3:6.2f} ms {times[1] * 1e3:6.2f} ms  {times[1] / times[0]:9.2f}", flush=True)
    return 0


def _runs(case: Case, ours: Any, theirs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    if case.learns:
        return lambda: ours.adapt(case.data), lambda: theirs.adapt(case.data)
    return lambda: ours.apply(case.data), lambda: np.asarray(theirs(case.data))


def _agree(found: Array, expected: Array) -> bool:
    """Return whether both are equal but for the order of words that are equally frequent."""
    if found.shape != expected.shape:
        return False
    # Which word of a text has which id is the order's, how many words have one is not.
    return bool(np.allclose(np.sort(found, axis=None), np.sort(expected, axis=None), rtol=1e-5))


def _timed(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())

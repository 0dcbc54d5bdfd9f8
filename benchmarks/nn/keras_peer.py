"""Keras, by `fit`, on JAX. The argument is the name of the workload."""

import os
import time
from collections.abc import Callable

from benchmarks.nn.jax_peer import keep_to_cores
from benchmarks.nn.workload import WORKLOADS


def prepare(argument: str) -> Callable[[], float]:
    """Return one epoch of training with loss and accuracy."""
    keep_to_cores()
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    workload = WORKLOADS[argument]
    x, y = workload.data()
    make = {
        "dense": lambda size: keras.layers.Dense(size, activation=workload.activation),
        "conv": lambda size: keras.layers.Conv2D(size, 3, padding="same", activation=workload.activation),
        "pool": keras.layers.MaxPooling2D,
        "flatten": lambda _: keras.layers.Flatten(),
        "lstm": keras.layers.LSTM,
    }
    layers = [make[kind](size) for kind, size in workload.layers[:-1]]
    model = keras.Sequential([keras.layers.Input(workload.sample), *layers, keras.layers.Dense(workload.classes, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

    def run() -> float:
        start = time.perf_counter()
        model.fit(x, y, batch_size=workload.batch, epochs=1, verbose=0)
        return time.perf_counter() - start

    return run

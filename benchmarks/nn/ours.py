"""This library. The argument is `<task>:<workload>`; tasks are train (through `fit` with a metric) and predict<batch>."""

import time
from collections.abc import Callable

import nn
from benchmarks.nn.workload import WORKLOADS, Workload, repetitions
from nn.layer import LSTM, Conv2D, Dense, Flatten, Layer, MaxPool


def build(workload: Workload) -> nn.model.SequentialModel:
    """Return the network, compiled with Adam."""
    activation = {"tanh": nn.activation.Tanh(), "relu": nn.activation.ReLU()}[workload.activation]
    make: dict[str, Callable[[int], Layer]] = {
        "dense": lambda size: Dense(size, activation=activation),
        "conv": lambda size: Conv2D(size, [3, 3], padding="same", activation=activation),
        "pool": MaxPool,
        "flatten": lambda _: Flatten(),
        "lstm": LSTM,
    }
    model = nn.model.SequentialModel([-1, *workload.sample])
    for kind, size in workload.layers[:-1]:
        model.add(make[kind](size))
    model.add(Dense(workload.classes, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    return model


def prepare(argument: str) -> Callable[[], float]:
    """Return one round of training or of predictions."""
    task, name = argument.split(":")
    workload = WORKLOADS[name]
    model = build(workload)
    if task == "train":
        x, y = workload.data()

        def run() -> float:
            start = time.perf_counter()
            model.fit(x, y, epoch=1, batch_size=workload.batch, verbose=0)
            return time.perf_counter() - start

        return run

    batch = int(task.removeprefix("predict"))
    x, _ = workload.data(repetitions(batch) * batch)

    def predict() -> float:
        start = time.perf_counter()
        for first in range(0, len(x), batch):
            model.predict(x[first : first + batch])
        return time.perf_counter() - start

    return predict

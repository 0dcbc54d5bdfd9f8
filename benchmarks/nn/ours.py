"""This library, through `fit` with a metric."""

import time
from collections.abc import Callable

import nn
from benchmarks.nn.workload import WORKLOADS


def prepare(argument: str) -> Callable[[], float]:
    workload = WORKLOADS[argument]
    x, y = workload.data()
    activation = {"tanh": nn.activation.Tanh(), "relu": nn.activation.ReLU()}[workload.activation]
    model = nn.model.SequentialModel([-1, workload.sizes[0]])
    for units in workload.sizes[1:-1]:
        model.add(nn.layer.Dense(units, activation=activation))
    model.add(nn.layer.Dense(workload.sizes[-1], activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer)

    def run() -> float:
        start = time.perf_counter()
        model.fit(x, y, epoch=1, batch_size=workload.batch, verbose=0)
        return time.perf_counter() - start

    return run

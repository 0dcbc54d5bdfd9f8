"""scikit-learn's MLPClassifier, one epoch per round; it computes the loss, but no accuracy."""

import time
from collections.abc import Callable

from benchmarks.nn.workload import WORKLOADS


def prepare(argument: str) -> Callable[[], float]:
    from sklearn.neural_network import MLPClassifier

    workload = WORKLOADS[argument]
    x, y = workload.data()
    model = MLPClassifier(workload.hidden, workload.activation, solver="adam", alpha=0, batch_size=workload.batch)
    classes = range(workload.classes)

    def run() -> float:
        start = time.perf_counter()
        model.partial_fit(x, y, classes=classes)
        return time.perf_counter() - start

    return run

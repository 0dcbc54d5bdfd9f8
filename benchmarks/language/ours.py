"""This library. The argument is `<task>:<workload>`; tasks are train (through `fit`), sample, and whole: the window for each
token.
"""

import time
from collections.abc import Callable

import numpy as np

import nn
from benchmarks.language.workload import WORKLOADS


def prepare(argument: str) -> Callable[[], float]:
    """Return one round."""
    task, name = argument.split(":")
    workload = WORKLOADS[name]
    model = nn.model.Transformer(
        workload.vocabulary, workload.length, workload.features, workload.heads, workload.blocks, rotary=True, tied=True
    )
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMWOptimizer(1e-3))
    x, y = workload.data()

    def train() -> None:
        model.fit(x, y, epoch=1, batch_size=workload.batch, verbose=0)

    def sample() -> None:
        model.generate([1], workload.drawn)

    def whole() -> None:
        random = np.random.default_rng(0)
        window = np.zeros((1, workload.length), np.int64)
        for place in range(workload.drawn):
            scores = model.predict(window)[0, place]
            window[0, place + 1] = (scores + random.gumbel(size=scores.shape)).argmax()

    tasks = {"train": train, "sample": sample, "whole": whole}

    def run() -> float:
        start = time.perf_counter()
        tasks[task]()
        return time.perf_counter() - start

    return run

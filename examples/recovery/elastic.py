"""A function that trains on while workers come and go: one of two is killed, and another one takes its place.

Run it as `python examples/recovery/elastic.py`. The survivor keeps its process and what it has learned; the newcomer gets that
from it. With `discovery=` the path of a script, the same function runs on the machines that the script prints.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import numpy as np

import nn
import parallel_sgd
from nn.dataset.transforms import ImageCls
from parallel_sgd import LocalNodes, elastic

EPOCHS, BATCH = 4, 60


def make_model() -> nn.model.Model:
    """A small network for handwritten digits; equal seeds give equal weights."""
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    model.add(nn.layer.Dense(32, activation=nn.activation.ReLU()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(5e-3))
    return model


def train_digits() -> tuple[float, list[tuple[int, int]]]:
    """What every worker runs; returns the accuracy, and (epoch, number of workers) at the beginning of each round."""
    train_x, train_y, test_x, test_y = ImageCls()(*nn.dataset.Digits().load())
    model = make_model()
    sampler = elastic.ElasticSampler(len(train_x), BATCH, seed=1)
    state = elastic.ModelState(model, sampler=sampler, rounds=0)
    history: list[tuple[int, int]] = []

    def count() -> None:
        state.rounds += 1

    state.register_reset_callbacks([count])

    @elastic.run
    def train(state: Any) -> float:
        history.append((sampler.epoch + 1, elastic.size()))
        while sampler.epoch < EPOCHS:
            for rows in sampler:
                if (sampler.epoch, sampler.processed, state.rounds, elastic.rank()) == (1, 600, 0, 1):
                    os.kill(os.getpid(), signal.SIGKILL)  # a power cut, say
                model.compute_gradients(train_x[rows], train_y[rows])
                mine = model.store.gradients * (len(rows) / BATCH)
                np.copyto(model.store.gradients, elastic.allreduce(mine, "sum"))
                model.apply_gradients()
                sampler.record_batch()
                state.commit()
            sampler.set_epoch(sampler.epoch + 1)
        return float(model.evaluate(test_x, test_y)["accuracy"])

    return train(state), history


def main() -> int:
    """Returns 0 when both workers of the last round are equally good, and good."""
    psgd.no_options(__doc__)
    with parallel_sgd.local_workers(3) as agents:
        first = LocalNodes(agents.key_file)
        for node in (0, 1):
            first.add(node, agents[node])
        hosts = [str(address) for _, address in agents.items()]  # the third is to spare
        results = elastic.launch(train_digits, first, discovery=lambda: hosts, max_workers=2)
    for rank, (accuracy, history) in results.items():
        rounds = ", ".join(f"{size} workers in epoch {epoch}" for epoch, size in history)
        print(f"Rank {rank}: accuracy {accuracy:.4f}; a round began with {rounds}.")
    accuracies = {accuracy for accuracy, _ in results.values()}
    return 0 if len(results) == 2 and len(accuracies) == 1 and accuracies.pop() > 0.85 else 1


if __name__ == "__main__":
    raise SystemExit(main())

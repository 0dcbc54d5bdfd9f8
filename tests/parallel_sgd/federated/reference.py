"""Federated averaging and its kin in plain NumPy: a network of two layers, float64, no part of the library but its draws."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import nn
from nn.arrays import Array
from nn.dataset.transforms import ImageCls
from nn.random import keyed

INPUTS, HIDDEN, CLASSES = 64, 12, 10


def model(dtype: str = "float64") -> nn.model.Model:
    made = nn.model.SequentialModel(
        [-1, INPUTS], [nn.layer.Dense(HIDDEN, "tanh"), nn.layer.Dense(CLASSES, "softmax")], seed=5, dtype=dtype
    )
    made.setup("crossentropy_with_softmax", "accuracy")
    return made


def arrays() -> tuple[Array, ...]:
    """The first 300 digits to train on, which are enough for 30 clients, and 50 others."""
    train_x, train_y, test_x, test_y = ImageCls()(*nn.dataset.Digits().load())
    return train_x[:300], train_y[:300], test_x[:50], test_y[:50]


def layers(vector: Array) -> list[Array]:
    """Views of the kernels and biases in the vector of all parameters."""
    shapes = [(INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return [vector[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]


def gradient(vector: Array, x: Array, y: Array) -> Array:
    """The gradient of the mean cross entropy of a batch."""
    first, bias, second, last = layers(vector)
    hidden = np.tanh(x @ first + bias)
    scores = hidden @ second + last
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = (scores / scores.sum(axis=1, keepdims=True) - y) / len(x)
    out = np.empty_like(vector)
    parts = layers(out)
    parts[2][:], parts[3][:] = hidden.T @ error, error.sum(axis=0)
    error = error @ second.T * (1 - hidden**2)
    parts[0][:], parts[1][:] = x.T @ error, error.sum(axis=0)
    return out


@dataclass
class Scheme:
    """What a paper calls its algorithm; `poisson` is the probability with which a round has each client, in place of `sample`;
    `adam` are learning rate, both betas and epsilon of the server, `control` is SCAFFOLD, `fed_back` sends half of each change
    with error feedback, of the last `personal` parameters each client has its own; `sent` makes of round, client and change
    what the client sends, `merged` of round and changes what the server takes.
    """

    rows: list[Array]
    sample: int
    epochs: int
    size: int
    rate: float
    seed: int
    poisson: float = 0.0
    mu: float = 0.0
    nova: bool = False
    control: bool = False
    fed_back: bool = False
    personal: int = 0
    adam: tuple[float, float, float, float] | None = None
    sent: Callable[[int, int, Array], Array] | None = None
    merged: Callable[[int, list[Array]], Array] | None = None

    def run(self, start: Array, rounds: int) -> Array:
        """The global parameters after so many rounds."""
        x, y = (np.asarray(each, np.float64) for each in arrays()[:2])
        common, m, v = start.astype(np.float64), 0.0, 0.0
        variates, mean_variate, left = np.zeros((len(self.rows), start.size)), np.zeros(start.size), np.zeros((100, start.size))
        shared = start.size - self.personal
        self.own = np.tile(common, (len(self.rows), 1))[:, shared:]
        for number in range(rounds):
            random = keyed(self.seed, "clients", number)
            if self.poisson:
                chosen = np.flatnonzero(random.random(len(self.rows)) < self.poisson).tolist()
            else:
                chosen = sorted(random.choice(len(self.rows), self.sample, replace=False).tolist())
            total = sum(len(self.rows[client]) for client in chosen)
            changes, steps, old = [], [], variates.copy()
            for client in chosen:
                own, count = np.concatenate([common[:shared], self.own[client]]), 0
                for epoch in range(self.epochs):
                    rows = self.rows[client]
                    rows = rows[keyed(self.seed, "client", number, client, epoch).permutation(len(rows))]
                    for at in range(0, len(rows), self.size):
                        part = rows[at : at + self.size]
                        step = gradient(own, x[part], y[part])
                        step[:shared] += self.mu * (own - common)[:shared]
                        if self.control:
                            step += mean_variate - old[client]
                        own -= self.rate * step
                        count += 1
                self.own[client], own[shared:] = own[shared:].copy(), common[shared:]
                if self.control:
                    variates[client] += (common - own) / (count * self.rate) - mean_variate
                if self.fed_back:
                    given = common - own + left[client]
                    left[client] = given / 2
                    own = common - given / 2
                changes.append(common - own if self.sent is None else self.sent(number, client, common - own))
                steps.append(count)
            mean_variate = mean_variate + (variates - old).sum(axis=0) / len(self.rows)
            weights = [len(self.rows[client]) / total for client in chosen]
            if self.merged is not None:
                change: Any = self.merged(number, changes)
            elif self.nova:
                mean = sum(w * n for w, n in zip(weights, steps, strict=True))
                change = mean * sum(w * d / n for w, d, n in zip(weights, changes, steps, strict=True))
            else:
                change = sum(w * d for w, d in zip(weights, changes, strict=True))
            if self.adam is None:
                common = common - change
            else:
                rate, beta1, beta2, epsilon = self.adam
                m = beta1 * m + (1 - beta1) * change
                v = beta2 * v + (1 - beta2) * change * change
                common = common - rate * (m / (1 - beta1 ** (number + 1))) / (
                    np.sqrt(v / (1 - beta2 ** (number + 1))) + epsilon
                )
        return common


def fedbuff(
    rows: list[Array], start: Array, seconds: Array, seed: int, updates: int, settings: dict[str, Any]
) -> tuple[Array, float]:
    """Parameters after so many server updates of FedBuff (Nguyen et al., 2022, algorithm 1), and the moment of the last.

    `seconds` are those that each client needs; `settings` are buffer, concurrency, epochs, size and rate of a client.
    """
    x, y = (np.asarray(each, np.float64) for each in arrays()[:2])
    server, summed = start.astype(np.float64), np.zeros(len(start))
    flying: list[Any] = []
    came: list[int] = []
    now, begun, done = 0.0, 0, 0
    while done < updates:
        while len(flying) < settings["concurrency"]:
            free = sorted(set(range(len(rows))) - {client for *_, client, _, _ in flying} - set(came))
            if not free:
                break
            client = free[int(keyed(seed, "buffer", begun).integers(len(free)))]
            heapq.heappush(flying, (now + seconds[client], begun, client, done, server.copy()))
            begun += 1
        now, number, client, version, origin = heapq.heappop(flying)
        own = origin.copy()
        for epoch in range(settings["epochs"]):
            order = rows[client][keyed(seed, "client", number, client, epoch).permutation(len(rows[client]))]
            for at in range(0, len(order), settings["size"]):
                part = order[at : at + settings["size"]]
                own -= settings["rate"] * gradient(own, x[part], y[part])
        summed += (origin - own) / np.sqrt(1 + done - version)
        came.append(client)
        if len(came) == settings["buffer"]:
            server = server - summed / settings["buffer"]
            summed, done, came = np.zeros(len(start)), done + 1, []
    return server, now

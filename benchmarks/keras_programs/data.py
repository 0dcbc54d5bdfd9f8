"""Data of the programs: real digits, and drawn sequences, tables and series with something to learn in them."""

from __future__ import annotations

import numpy as np

from nn.arrays import Array
from nn.dataset import Digits
from nn.random import keyed

SAMPLES = 640
"""Samples of a program: 20 batches of 32."""


def digits(size: int = 8) -> tuple[Array, Array]:
    """Return images (samples, size, size, 1) from 0 to 255, with size 8 or 16, and their one-hot rows."""
    x, y, _, _ = Digits().load()
    images = np.kron(x[:SAMPLES].reshape(-1, 8, 8), np.ones((size // 8, size // 8)))
    # Over an empty background ReLU sees exact zeros, of which rounding makes one sign or the other.
    images = 0.85 * images + keyed(0, "noise").uniform(0, 0.15 * 255, images.shape)
    return images[..., None].astype(np.float32), np.eye(10, dtype=np.float32)[y[:SAMPLES].reshape(-1)]


def digit_masks() -> tuple[Array, Array]:
    """Return images (samples, 16, 16, 1) from 0 to 1, and which pixels belong to the digit, (samples, 16, 16, 1)."""
    x, _ = digits(16)
    return x / 255, (x > 100).astype(np.float32)


def digit_pairs() -> tuple[Array, Array, Array]:
    """Return two images of each sample, (samples, 8, 8, 1) from 0 to 1, and 1 where they show different digits."""
    x, y = digits()
    other = keyed(0, "pairs").permutation(SAMPLES)
    return x / 255, x[other] / 255, np.float32((y != y[other]).any(axis=1))[:, None]


def digit_rows(length: int = 3) -> tuple[Array, Array]:
    """Return images (samples, 8, 8 * length, 1) from 0 to 1 of several digits, and these, (samples, length)."""
    x, y = digits()
    picked = keyed(0, "rows").integers(0, SAMPLES, (SAMPLES, length))
    rows = x[picked, :, :, 0] / 255
    return rows.transpose(0, 2, 1, 3).reshape(SAMPLES, 8, -1, 1), y.argmax(axis=1)[picked].astype(np.int32)


def reviews(words: int = 200, length: int = 24) -> tuple[Array, Array]:
    """Return sequences of word numbers (samples, length) with zeros behind their ends, and 1 where they are positive."""
    draw = keyed(0, "reviews")
    x = draw.integers(1, words, (SAMPLES, length))
    x[np.arange(length) >= draw.integers(6, length + 1, (SAMPLES, 1))] = 0
    score = np.where(x > 0, np.sign(np.arange(words) % 7 - 3)[x], 0).sum(axis=1)
    return x.astype(np.int32), (score > 0).astype(np.float32)[:, None]


def text(letters: int = 30, length: int = 24) -> tuple[Array, Array]:
    """Return sequences of letters (samples, length), and the letter behind each."""
    draw = keyed(0, "text")
    follow = draw.integers(0, letters, (letters, 3))
    rows = [draw.integers(0, letters, SAMPLES)]
    for _ in range(length):
        rows.append(follow[rows[-1], draw.integers(0, 3, SAMPLES)])
    x = np.stack(rows, axis=1).astype(np.int32)
    return x[:, :-1], x[:, 1:]


def series(features: int = 4) -> Array:
    """Return readings of a station (hours, features), the first of which is the one to predict."""
    hours = np.arange(2000)[:, None]
    waves = np.sin(hours / (6 + 5 * np.arange(features)) + np.arange(features))
    return np.asarray(waves + 0.1 * keyed(0, "series").standard_normal(waves.shape), np.float32)


def table() -> str:
    """Return patients as text of a CSV file: columns age, pressure, chest, thal and target; the last fifth is to test on."""
    draw, rows = keyed(0, "table"), SAMPLES * 5 // 4
    age, pressure = draw.integers(30, 78, rows), draw.normal(130, 15, rows).round(1)
    chest, thal = draw.choice(["typical", "atypical", "none"], rows), draw.choice(["fixed", "normal", "reversible"], rows)
    ill = (age - 50) / 10 + (pressure - 130) / 15 + (chest == "typical") + (thal == "reversible") > 0.7
    cells = zip(age, pressure, chest, thal, ill.astype(int), strict=True)
    return "age,pressure,chest,thal,target\n" + "\n".join(",".join(map(str, row)) for row in cells) + "\n"


def payments(features: int = 12) -> tuple[Array, Array]:
    """Return payments (samples, features), and 1 for the few that are frauds."""
    draw = keyed(0, "payments")
    y = np.float32(draw.random((SAMPLES, 1)) < 0.06)
    return np.asarray(draw.standard_normal((SAMPLES, features)) + y, np.float32), y


def tickets(words: int = 100) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return texts of title and body and tags of tickets, and their priority and department."""
    draw = keyed(0, "tickets")
    title, body = draw.integers(1, words, (SAMPLES, 6)), draw.integers(1, words, (SAMPLES, 20))
    tags = draw.integers(0, 2, (SAMPLES, 8))
    inputs = {"title": title.astype(np.int32), "body": body.astype(np.int32), "tags": tags.astype(np.float32)}
    priority = np.float32(title[:, :1] > words / 2)
    return inputs, {"priority": priority, "department": np.eye(4, dtype=np.float32)[tags[:, :3].sum(axis=1)]}

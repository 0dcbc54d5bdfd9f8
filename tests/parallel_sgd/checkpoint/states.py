"""Small snapshots for tests of what happens to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallel_sgd.checkpoint import Header, Position, Progress, Snapshot


def header(epoch: int = 1, batch: int = 0, *, loss: float | None = None, **fields: Any) -> Header:
    evaluation = {} if loss is None else {"Loss": loss}
    given: dict[str, Any] = {
        "job": "a-job",
        "attempt": 0,
        "node": 0,
        "title": "P-SGD",
        "seed": 3,
        "personal": False,
        "blocks": [[0], [1]],
        "progress": Progress(Position(epoch, batch), 7, 1.5, evaluation),
    }
    return Header(**{**given, **fields})


def snapshot(epoch: int = 1, batch: int = 0, *, size: int = 5, loss: float | None = None, **fields: Any) -> Snapshot:
    """The values tell the position."""
    arrays = {
        "value/dense_1/kernel": np.full((size, 3), 100 * epoch + batch, np.float32),
        "codec/0.up.0,0.residual": np.arange(size, dtype=np.float32),
        "optimizer/rule:momentum": np.linspace(0, 1, size, dtype=np.float64),
    }
    numbers = {"optimizer/rule:step": 11, "codec/0.age": 0.25, "codec/1.name": "ä", "codec/1.none": None, "codec/1.on": True}
    return Snapshot(header(epoch, batch, loss=loss, **fields), arrays, numbers)


def content(made: Snapshot) -> bytes:
    return b"".join(made.pieces())

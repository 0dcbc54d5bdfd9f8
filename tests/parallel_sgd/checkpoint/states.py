"""Small snapshots, a disk that refuses, and jobs of which they are: interrupted, thrown back, continued."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from nn.model import Model, SequentialModel
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.checkpoint import Header, Position, Progress, Snapshot, Store
from parallel_sgd.checkpoint.store import Disk, file_name

BATCHES = 12  # of an epoch of the digits, with two workers and blocks of 64; the last has 92 samples


def header(epoch: int = 1, batch: int = 0, *, loss: float | None = None, **fields: Any) -> Header:
    progress = Progress(Position(epoch, batch), 7, 1.5, {} if loss is None else {"Loss": loss})
    given: dict[str, Any] = {"job": "a-job", "attempt": 0, "node": 0, "title": "P-SGD", "seed": 3, "personal": False}
    return Header(**{**given, "blocks": [[0], [1]], "progress": progress, **fields})


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


def newest(folder: Path) -> Snapshot:
    found = Store(folder).newest()
    assert found is not None
    return found


class FailingDisk(Disk):
    """Refuses one operation, as often as it is asked for."""

    def __init__(self, operation: str, code: int) -> None:
        self.operation, self.code, self.fired = operation, code, 0

    def fail(self, operation: str) -> None:
        if operation == self.operation:
            self.fired += 1
            raise OSError(self.code, os.strerror(self.code))

    def make_folder(self, path: Path) -> None:
        self.fail("make_folder")
        super().make_folder(path)

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        parts = list(pieces)
        if self.operation == "write":
            super().write(path, parts[:1])  # what a full disk leaves
        self.fail("write")
        super().write(path, parts)
        self.fail("fsync")

    def replace(self, source: Path, target: Path) -> None:
        self.fail("replace")
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self.fail("sync_folder")
        super().sync_folder(folder)


def network() -> Model:
    """All that has a state of its own or draws random numbers: statistics of batches, masks."""
    model = SequentialModel(input_shape=[-1, 64], seed=5)
    model.add(nn.layer.Dense(24, activation=nn.activation.ReLU()))
    model.add(nn.layer.BatchNorm())
    model.add(nn.layer.Dropout(0.25))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model


def run(directory: Path, workers: int = 2, *, ps: bool = False, model: Model | None = None, **settings: Any) -> JobResult:
    job = ParallelSGD(model or network(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with in_process(workers, ps=ps) as nodes:
        return job.parallel(nodes, **{"epoch": 3, "block_size": 64, "directory": directory, "seed": 11, **settings})


def kept(directory: Path, node: int) -> Path:
    """The folder of the checkpoints of a node."""
    return directory / f"Node-{node}-Retrieve" / "checkpoints"


def positions(directory: Path, node: int) -> list[Position]:
    names = sorted(kept(directory, node).glob("*.safetensors"))
    return [Position(*map(int, path.stem.split("-")[1:])) for path in names]


def throw_back(directory: Path, workers: list[int]) -> Position:
    """Remove all after the oldest checkpoint that all have, as if the job had been interrupted there; returns where that is."""
    held = [positions(directory, node) for node in workers]
    end = max(map(max, held))
    common = set(held[0]).intersection(*held[1:]) - {end}
    position = min(common or {position for found in held for position in found if position < end})
    for path in directory.glob("Node-*-Retrieve/checkpoints/*"):
        if path.name > file_name(position):
            path.unlink()
    return position


def bits(result: JobResult) -> dict[int, tuple[bytes, bytes]]:
    """Parameters and statistics of every worker."""
    stores = {node: model.store for node, model in result.models.items()}
    return {node: (store.values.tobytes(), store.buffer_values.tobytes()) for node, store in stores.items()}

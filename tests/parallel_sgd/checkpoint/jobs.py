"""Jobs that are interrupted: trained to the end, thrown back to an earlier checkpoint, and continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from nn.model import Model, SequentialModel
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.progress import Position

BATCHES = 12  # of an epoch of the digits, with two workers and blocks of 64; the last has 92 samples


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


def positions(directory: Path, node: int) -> list[Position]:
    """The checkpoints that a node has."""
    names = sorted((directory / f"Node-{node}-Retrieve" / "checkpoints").glob("*.safetensors"))
    return [Position(*map(int, path.stem.split("-")[1:])) for path in names]


def throw_back(directory: Path, workers: list[int]) -> Position:
    """Remove all after the oldest checkpoint that all have, as if the job had been interrupted there; returns where that is."""
    held = [positions(directory, node) for node in workers]
    end = max(map(max, held))
    common = set(held[0]).intersection(*held[1:]) - {end}
    position = min(common or {position for found in held for position in found if position < end})
    for folder in directory.glob("Node-*-Retrieve/checkpoints"):
        for path in folder.iterdir():
            if path.name > file_name(position):
                path.unlink()
    return position


def bits(result: JobResult) -> dict[int, tuple[bytes, bytes]]:
    """Parameters and statistics of every worker."""
    stores = {node: model.store for node, model in result.models.items()}
    return {node: (store.values.tobytes(), store.buffer_values.tobytes()) for node, store in stores.items()}


def rows(directory: Path, kind: str, node: int) -> list[list[str]]:
    """A table, without the column of seconds in TR."""
    lines = (directory / f"Node-{node}-Retrieve" / f"{kind}-P-SGD-N({node}).csv").read_text("utf-8").splitlines()
    return [line.split(",")[1 if kind == "TR" else 0 :] for line in lines]

"""The page of a run names who slowed it down: real processes, and in each case one thing that takes too long in every batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from parallel_sgd import ParallelSGD, local_workers
from parallel_sgd.codec import BlockWeight, GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.batches import BlockFeeder
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.run_page import RunRecords, blame
from tests.parallel_sgd.networks import mlp

from .jobs import some

EXTRA, BATCHES = 0.3, 5  # what a busy machine takes for a batch is less


class Heavy(Plain):
    """Needs long for the variable `victim`."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if GlobalSettings.current().variable == GlobalSettings.get_params("victim"):
            time.sleep(EXTRA)
        return super().update_blocks(block_weight)


class Late(Plain):
    """In the process of worker `victim` it takes long to read samples, as from the disk of somebody else."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if node_id == GlobalSettings.get_params("victim") and BlockFeeder.deal.__name__ != "late":
            deal = BlockFeeder.deal

            def late(self: BlockFeeder, batch: int, block: int) -> Any:
                time.sleep(EXTRA)
                return deal(self, batch, block)

            BlockFeeder.deal = late  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def same_feeder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what `Late` does here: a submitter makes a codec, too, to see that it can be made."""
    monkeypatch.setattr(BlockFeeder, "deal", BlockFeeder.deal)


@cache
def data(workers: int) -> ArrayDataset:
    random = np.random.default_rng(3)
    count = 16 * workers * BATCHES
    return ArrayDataset(
        *(random.normal(size=(count, 64)).astype(np.float32), random.integers(0, 10, count)),
        *(random.normal(size=(8, 64)).astype(np.float32), random.integers(0, 10, 8)),
    )


def check(case: str, place: int, nodes: LocalNodes, folder: Path) -> None:
    """The true cause comes first, with at least 80 % of the seconds that it cost."""
    workers = len(nodes)
    other = (place + 1) % workers
    settings: dict[str, Any] = {"codec_extra_parameters": {"victim": place}}
    if case == "node":
        settings = {"fault": "; ".join(f"hang {place}@e1.b{batch} for {EXTRA}s" for batch in range(1, BATCHES + 1))}
    elif case == "link":
        settings = {"fault": f"+{EXTRA}s {place}-{other}"}
    elif case == "codec":
        settings["codec"] = Heavy
    else:
        settings["codec"] = Late
    result = ParallelSGD(mlp(units=8), data(workers)).parallel(nodes, epoch=1, block_size=16, directory=folder, **settings)
    assert result.report is not None
    records = RunRecords.read(result.report.parent)
    found = blame(records.batches, records.costs())
    variables = [f"dense_{1 + number // 2}/{('kernel', 'bias')[number % 2]}" for number in range(6)]
    names = {
        "node": f"worker {place}",
        "link": f"link {min(place, other)}\N{EN DASH}{max(place, other)}",
        "codec": f"Heavy of {variables[place]}",
        "data": f"worker {place}",
    }
    first = found.causes[0]
    assert (first.kind, first.place) == (case, names[case]) and first.seconds >= 0.8 * EXTRA * BATCHES, found.causes


@pytest.mark.parametrize(("case", "place"), [("link", 1), ("codec", 3), ("data", 2)])
@pytest.mark.long
def test_the_true_cause_comes_first(case: str, place: int, agents: LocalNodes, tmp_path: Path) -> None:
    check(case, place, some(agents, 4), tmp_path)


@pytest.fixture(scope="module")
def six() -> Iterator[LocalNodes]:
    with local_workers(6) as nodes:
        yield nodes


@pytest.mark.long
@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("case", ["node", "link", "codec", "data"])
def test_the_true_cause_comes_first_in_every_place(case: str, place: int, six: LocalNodes, tmp_path: Path) -> None:
    check(case, place, six, tmp_path)

"""Runs of a sweep that are planned, and trained in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from network.nodes import NodeAssignment
from parallel_sgd import JobResult, ParallelSGD, SweepResult
from parallel_sgd.job import work_of
from parallel_sgd.sweeps.grid import combinations
from parallel_sgd.sweeps.results import Row
from parallel_sgd.sweeps.runs import Point, Told
from parallel_sgd.sweeps.sweep import _Place, _Planner, _Run
from tests.processes.training.jobs import digits_job


class Plan:
    """The runs of a sweep of small jobs: `train` trains one of them here, without a pool."""

    def __init__(
        self,
        grid: Any = None,
        seeds: Any = (0,),
        *,
        job: ParallelSGD | None = None,
        nodes: NodeAssignment | None = None,
        new_weights: bool = True,
        **options: Any,
    ) -> None:
        common = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "verbose": 0, "mission_title": "digits", **options}
        grid = {"redundancy": [1]} if grid is None else grid
        self._planner = _Planner(work_of(job or digits_job()), _Place(nodes), common, new_weights)
        self.runs: list[_Run] = self._planner.runs(combinations(grid, common), list(seeds))
        self.identities = [run.identity for run in self.runs]

    def train(self, number: int = 0) -> JobResult:
        run = self.runs[number]
        return self._planner.train(run, run.options.nodes)


def result_of(folder: Path) -> SweepResult:
    """Two codecs and two seeds, with figures that are easy to compute by hand; one run has failed."""

    def told(accuracy: float, seconds: float, sent: float, clock: str = "measured") -> Told:
        points = (
            Point(1, seconds / 2, sent / 2, {"Loss": 2.0, "val_accuracy": accuracy / 2}),
            Point(2, seconds, sent, {"Loss": 1.0, "val_accuracy": accuracy}),
        )
        return Told("done", "made-1", {"accuracy": accuracy}, points, clock)

    return SweepResult(
        "made",
        folder,
        [
            Row({"codec": "plain", "share": "-"}, 0, 2, "a" * 64, told(0.5, 1.0, 4000.0)),
            Row({"codec": "plain", "share": "-"}, 1, 2, "b" * 64, told(0.7, 3.0, 4000.0)),
            Row({"codec": "top_k", "share": "0.1"}, 0, 2, "c" * 64, told(0.6, 2.0, 40.0)),
            Row(
                {"codec": "top_k", "share": "0.1"}, 1, 2, "d" * 64, Told("failed", "made-4", message="ValueError: <b>no, </b>")
            ),
        ],
    )

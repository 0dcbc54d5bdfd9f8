"""One job on agents of this machine, in a process of its own: `python -m benchmarks.growth.job <workers> <width> <codec>`.

Prints as JSON what it took: seconds, processor seconds of all processes until the job runs, their memory, what was sent.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import nn
import parallel_sgd
from benchmarks.machine import status
from benchmarks.processes import children_of, cpu_seconds
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import codec
from rpc.support.logs import SUBMIT_LOGGER

EPOCHS, BATCH, TITLE = 2, 64, "growth"


class Moment(logging.Handler):
    """Looks at all processes of the job once the submitter waits for its end."""

    def __init__(self, agents: Iterable[int]) -> None:
        super().__init__(logging.INFO)
        self._agents = list(agents)
        self.seen: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith("Waiting for"):
            return
        jobs = [child for agent in self._agents for child in children_of(agent)]
        self.seen = {
            "at": time.monotonic(),
            "cpu": sum(map(cpu_seconds, (os.getpid(), *self._agents, *jobs))),
            "agent_mb": sum(map(memory_mb, self._agents)) / len(self._agents),
            "job_mb": sum(map(memory_mb, jobs)) / max(len(jobs), 1),
        }


def memory_mb(pid: int) -> float:
    """What the process has for itself, and its share of what others have too (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def model(width: int) -> nn.model.Model:
    made = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    made.add(nn.layer.Dense(width, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def steps_of(table: Path) -> tuple[float, float]:
    """The first step, and the mean of those of the last epoch, in seconds."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [float(row["Time"]) for row in rows]
    begin = next(place for place, row in enumerate(rows) if int(row["Epochs"]) == EPOCHS)
    return times[0], (times[-1] - times[begin]) / (len(times) - 1 - begin)


def measured(workers: int, width: int, name: str) -> dict[str, float]:
    logger = logging.getLogger(SUBMIT_LOGGER)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.local_workers(workers) as nodes:
        assert nodes.agents is not None
        moment = Moment(nodes.agents.pids)
        logger.addHandler(moment)
        called, cpu = time.monotonic(), sum(map(cpu_seconds, (os.getpid(), *nodes.agents.pids)))
        result = parallel_sgd.ParallelSGD(model(width), nn.dataset.Digits(), ImageCls()).parallel(
            nodes,
            codec=None if name == "default" else getattr(codec, name),
            epoch=EPOCHS,
            block_size=max(1, BATCH // workers),
            gd_type=SGDOptimizer,
            gd_params=(0.1,),
            mission_title=TITLE,
            checkpoint_every=None,
            directory=folder,
        )
        ended = time.monotonic()
        tables = [Path(folder, f"Node-{node}-Retrieve", f"TR-{TITLE}-N({node}).csv") for node in range(workers)]
        first, step = (max(times) for times in zip(*map(steps_of, tables), strict=True))
    rows = [row for node in result.accounts.values() for row in node if row.direction == "sent"]
    return {
        "agents": called - begun,
        "submission": moment.seen["at"] - called,
        "cpu": moment.seen["cpu"] - cpu,
        "first": first,
        "step": step,
        "whole": ended - called,
        "submitter_mb": status("VmHWM") / 2**20,
        "agent_mb": moment.seen["agent_mb"],
        "job_mb": moment.seen["job_mb"],
        "packets": float(sum(row.packets for row in rows)),
        "mb": sum(row.wire for row in rows) / 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))

"""FedAvg in Flower's simulation; `benchmarks.clients.flower` calls `main` with a Python that has `flwr[simulation]`.

The task says which clients a round trains, in which order of samples, so that the draws are those of the job beside it. The
first rounds start the actors and are not timed. Only NumPy, Flower and the loop of `benchmarks.clients.loop` are imported.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.clients.loop import Learner
from benchmarks.processes import tree_seconds

WARM = 2
ACTORS = 2
_SET_CHILD_SUBREAPER = 36
_TASK = "BENCHMARK_TASK"  # in the environment, which the actors have, too
client_app, server_app = ClientApp(), ServerApp()


@cache
def task() -> dict[str, Any]:
    """Load the task, once per process."""
    with np.load(os.environ[_TASK]) as file:
        return dict(file)


@cache
def learner() -> Learner:
    return Learner(tuple(task()["units"].tolist()), len(task()["start"]))


class SameDraws(FedAvg):
    """FedAvg whose clients are told which client of the task they are."""

    def configure_train(self, server_round: int, arrays: ArrayRecord, _: ConfigRecord, grid: Grid) -> Iterable[Message]:
        if server_round == WARM + 1:
            moments.append((time.perf_counter(), tree_seconds(os.getpid())))
        nodes = sorted(grid.get_node_ids())
        for place, client in enumerate(task()["chosen"][server_round - 1]):
            config = ConfigRecord({"round": server_round - 1, "place": place})
            content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
            yield Message(content=content, message_type=MessageType.TRAIN, dst_node_id=nodes[client])


moments: list[tuple[float, float]] = []


@client_app.train()
def train(message: Message, _: Any) -> Message:
    given, config = task(), message.content["config"]
    common = message.content["arrays"].to_numpy_ndarrays()[0]
    begin, end = given["cuts"][config["round"], config["place"]]
    order = given["orders"][begin:end]
    changed = common + learner().change(common, given["x"], given["y"], int(given["size"]), float(given["rate"]), order)
    content = {"arrays": ArrayRecord([changed]), "metrics": MetricRecord({"num-examples": len(order)})}
    return Message(content=RecordDict(content), reply_to=message)


@server_app.main()
def serve(grid: Grid, _: Any) -> None:
    given = task()
    while len(list(grid.get_node_ids())) < int(given["clients"]):
        time.sleep(0.05)
    result = SameDraws(fraction_evaluate=0.0).start(grid, ArrayRecord([given["start"]]), num_rounds=len(given["chosen"]))
    moments.append((time.perf_counter(), tree_seconds(os.getpid())))
    (begun, cpu_before), (ended, cpu) = moments
    np.savez(str(given["result"]), seconds=ended - begun, cpu=cpu - cpu_before, parameters=result.arrays.to_numpy_ndarrays()[0])


def main(path: str) -> None:
    """Run the task of a file of arrays, and write its result into the file that it names."""
    os.environ[_TASK] = path
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the actors are no children of this process
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": ACTORS}}
    run_simulation(server_app, client_app, int(task()["clients"]), backend_config=backend)

"""Is communication hidden behind backward? Steps of two workers whose link is throttled, through the whole product.

The kernel paces what each worker sends over loopback TCP (SO_MAX_PACING_RATE), which costs no processor time that a proxy in
between would take from the workers. As a contender: the argument is `<codec>:<samples per block>`, codecs are `Paced` and
`DummyCodec`, which exchanges nothing. A round submits a job to agents that live as long as the contender, and gives the seconds
of a step, from the workers' own tables.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import logging
import os
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import nn
import parallel_sgd
from benchmarks.network.workload import held
from benchmarks.pairing import take_turns
from network.transport import MAX_UNIX_PATH
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd.codec import DummyCodec, GlobalSettings, Plain
from rpc.support.logs import SUBMIT_LOGGER

RATE = 125_000_000  # bytes per second in each direction: 1 Gbit/s
WORKERS, STEPS, TITLE = 2, 16, "throttled"
LAYERS = (256, *[512] * 8, 10)
GOAL = 0.75  # of compute plus exchange
_SO_MAX_PACING_RATE = 47  # Linux


class Paced(Plain):
    """`Plain` in a process whose TCP connections to other processes are paced."""

    traits = Plain.traits  # as Plain, also where it counts for the class that says it

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        rate = GlobalSettings.get_params("rate")
        paced = sum(_pace(int(name), rate) for name in os.listdir("/proc/self/fd"))
        if not paced:
            raise RuntimeError("There is no TCP connection to be paced: do the workers talk over a Unix socket?")


def _pace(descriptor: int, rate: int) -> bool:
    """Pace a connected TCP socket; whether it is one."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:  # no socket, or gone
        return False
    try:
        sock.getpeername()
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)
    except OSError:  # it only listens
        return False
    finally:
        sock.detach()  # it belongs to the worker
    return True


def model() -> nn.model.Model:
    made = nn.model.SequentialModel(input_shape=[-1, LAYERS[0]])
    for units in LAYERS[1:-1]:
        made.add(nn.layer.Dense(units, activation=nn.activation.ReLU()))
    made.add(nn.layer.Dense(LAYERS[-1], activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def hidden(rounds: int) -> bool:
    """Print how long a step takes beside compute alone plus exchange alone; return whether the goal is reached.

    The exchange alone is what a step of one sample per worker takes longer than without an exchange. The block is chosen so
    that backward takes as long: of a step of equal dense layers it is two thirds.
    """
    size = sum(4 * (inputs + 1) * units for inputs, units in itertools.pairwise(LAYERS))
    print(f"{len(LAYERS) - 1} dense layers, {size / 1e6:.1f} MB, {WORKERS} workers, {RATE * 8 / 1e9:g} Gbit/s: time of a step")
    compute, block = seconds({"compute": "DummyCodec:256"}, 1)["compute"][0], 256
    block = max(32, round(block * 1.5 * size / RATE / compute / 32) * 32)
    taken = seconds(
        {"small": "DummyCodec:1", "small, paced": "Paced:1", "compute": f"DummyCodec:{block}", "both": f"Paced:{block}"}, rounds
    )
    exchange = [paced - small for small, paced in zip(taken["small"], taken["small, paced"], strict=True)]
    shares = [both / (c + e) for both, c, e in zip(taken["both"], taken["compute"], exchange, strict=True)]
    for name, times in (("compute", taken["compute"]), ("exchange", exchange), ("both", taken["both"])):
        print(f"  {name:<18} {statistics.median(times) * 1e3:10.3f} ms", flush=True)
    share = statistics.median(shares)
    print(f"  both / (compute + exchange) = {share:.2f}, {block} samples per worker", flush=True)
    print("  goal reached" if share <= GOAL else f"  missed: the goal is {GOAL}", flush=True)
    return share <= GOAL


def seconds(contenders: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """The seconds of a step of each contender in each round.

    Raises: RuntimeError when one cannot take part.
    """
    results = take_turns({name: ("benchmarks.exchange.throttled", text) for name, text in contenders.items()}, 1, rounds)
    for name, result in results.items():
        if result.note:
            raise RuntimeError(f"{name} was not measured: {result.note}")
    return {name: result.seconds for name, result in results.items()}


def prepare(argument: str) -> Callable[[], float]:
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    return held(lambda: rounds(*argument.split(":")))


def rounds(codec: str, block: str) -> Iterator[Callable[[], float]]:
    batch = WORKERS * int(block)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((batch * STEPS, LAYERS[0]), dtype=np.float32)
    y = np.eye(LAYERS[-1], dtype=np.float32)[generator.integers(0, LAYERS[-1], len(x))]
    job = parallel_sgd.ParallelSGD(model(), ArrayDataset(x, y, x[:64], y[:64]))
    with only_tcp() as folder, parallel_sgd.local_workers(WORKERS) as nodes:

        def run() -> float:
            job.parallel(
                nodes,
                epoch=2,
                block_size=int(block),
                gd_type=SGDOptimizer,
                gd_params=(1e-4,),
                codec={"Paced": Paced, "DummyCodec": DummyCodec}[codec],
                codec_extra_parameters={"rate": RATE} if codec == "Paced" else {},
                mission_title=TITLE,
                checkpoint_every=None,
                directory=folder,
            )
            return max(step_seconds(folder / f"Node-{node}-Retrieve" / f"TR-{TITLE}-N({node}).csv") for node in range(WORKERS))

        yield run


@contextlib.contextmanager
def only_tcp() -> Iterator[Path]:
    """Temporary directories in the block have paths that are too long for a Unix socket; yields one."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as root:
        deep = Path(root, "d" * MAX_UNIX_PATH)
        deep.mkdir()
        tempfile.tempdir = str(deep)
        try:
            yield deep
        finally:
            tempfile.tempdir = before


def step_seconds(table: Path) -> float:
    """The median over the steps of the last epoch; the first is for warmth."""
    with table.open(newline="", encoding="utf-8") as file:
        times = [float(row["Time"]) for row in csv.DictReader(file) if row["Epochs"] == "2"]
    return statistics.median(after - before for before, after in itertools.pairwise(times))

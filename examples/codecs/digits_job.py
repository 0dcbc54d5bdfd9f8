"""What the examples of this folder share: one job on handwritten digits, run by any codec, and an account of what it sent.

A `Scheme` is a codec with the settings it needs; `main` is the program of an example, `train` runs a scheme on given nodes.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import nn
import nn.dataset.transforms as transforms
import parallel_sgd
from network import NodeAssignment
from nn.gradient_descent import SGDOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer import IOptimizer, PSGDOptimizer
from parallel_sgd.batch_sync import SyncChoice, SynchronizedSGD
from parallel_sgd.codec import Codec
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.profiles import AbsBlockAssignment, IIDBlockAssignment

BATCH = 96  # samples over all workers: blocks of equal size for 1, 2, 3, 4, 6 and 8 blocks
TRAINING_SAMPLES = 1500
OUTPUT = Path("demo-output")


@dataclass(frozen=True)
class Scheme:
    """A codec and how a job takes it. `why` is a few words for tables."""

    codec: type[Codec]
    why: str
    gd_type: type[IGradientDescent] = SGDOptimizer
    gd_params: tuple[Any, ...] = (0.5,)
    op_type: type[IOptimizer] = PSGDOptimizer
    sync_type: SyncChoice = SynchronizedSGD
    assignment_type: Callable[[int, int], AbsBlockAssignment] = IIDBlockAssignment
    redundancy: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That of the codec."""
        return self.codec.__name__


@dataclass(frozen=True)
class Outcome:
    """What a run has shown. Sizes are bytes on the wire, with what the frames add."""

    result: parallel_sgd.JobResult
    workers: int
    steps: int
    seconds: float  # from submission to the results
    sent: Mapping[int, int]  # by each node, the parameter server too

    @property
    def accuracy(self) -> float:
        """On images nobody has trained on; the mean over the workers."""
        return self.result["accuracy"]

    @property
    def bytes_per_step(self) -> float:
        """What a worker sends in a batch; what a parameter server sends counts as sent by those it is for."""
        return sum(self.sent.values()) / self.workers / self.steps

    @property
    def dense_bytes(self) -> int:
        """The same for float32 gradients from every worker to every other one, without frames."""
        model = next(iter(self.result.models.values()))
        return 4 * model.store.values.size * (self.workers - 1)

    @property
    def saving(self) -> float:
        """How many times as many bytes dense gradients take; infinity where nothing had to be sent."""
        return self.dense_bytes / self.bytes_per_step if self.bytes_per_step else math.inf


def network() -> nn.model.SequentialModel:
    """Two hidden layers of 128 units, 26,122 parameters: those of the tutorial, for the smaller images of `Digits`."""
    model = nn.model.SequentialModel(input_shape=[-1, 64], seed=5)
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model


def train(scheme: Scheme, nodes: NodeAssignment, epochs: int, directory: Path, **settings: Any) -> Outcome:
    """Train the network of all examples on `nodes`. `settings` are more arguments of `parallel()`."""
    workers = len(nodes.worker_ids)
    blocks = scheme.assignment_type(workers, scheme.redundancy).block_count
    block_size = max(1, BATCH // blocks)
    job = parallel_sgd.ParallelSGD(network(), nn.dataset.Digits(), transforms.Shuffle().add(transforms.ImageCls()))
    start = time.perf_counter()
    result = job.parallel(
        nodes,
        codec=scheme.codec,
        op_type=scheme.op_type,
        gd_type=scheme.gd_type,
        gd_params=scheme.gd_params,
        sync_type=scheme.sync_type,
        assignment_type=scheme.assignment_type,
        redundancy=scheme.redundancy,
        block_size=block_size,
        epoch=epochs,
        directory=directory,
        **{"mission_title": scheme.name, "codec_extra_parameters": scheme.parameters, **settings},
    )
    seconds = time.perf_counter() - start
    sent = {node: sum(e.wire for e in entries if e.direction == SENT) for node, entries in result.accounts.items()}
    return Outcome(result, workers, epochs * -(-TRAINING_SAMPLES // (block_size * blocks)), seconds, sent)


def describe(scheme: Scheme, outcome: Outcome) -> str:
    """What it has learned, and what that took; of an asynchronous run also how old gradients were."""
    server = outcome.result.accounts.get(parallel_sgd.Parameter_Server)
    ages = ", ".join(f"{steps} ({count})" for steps, count in server.staleness.items()) if server else ""
    return (
        f"{scheme.name}, {outcome.workers} workers, {outcome.steps} steps in {outcome.seconds:.1f} s: "
        f"accuracy {outcome.accuracy:.4f} on images they have not seen.\n"
        f"{outcome.bytes_per_step:,.0f} bytes per worker and step; 32-bit gradients from all to all are "
        f"{outcome.dense_bytes:,}{f', {outcome.saving:.3g} times as many' if outcome.bytes_per_step else ''}."
        + (f"\nSteps that others had made before a gradient arrived (how often): {ages}." if ages else "")
    )


def parser(text: str | None, workers: int = 2, epochs: int = 15) -> psgd.OptionParser:
    """The options of an example; `text` is its docstring."""
    made = psgd.OptionParser(description=(text or "").partition("\n")[0])
    psgd.add_nodes(made, workers)
    made.add_argument("--epochs", type=psgd.positive, default=epochs, help=f"passes over the images (default {epochs})")
    made.add_argument(
        "--directory", type=psgd.folder, default=OUTPUT, help=f"where logs, reports and models go (default {OUTPUT})"
    )
    return made


def main(text: str | None, scheme: Scheme) -> int:
    """Train as the command line says, print what came out; 0 when the network has learned something."""
    made = parser(text)
    options = made.parse_args()
    with psgd.nodes_of(made, options, ps=scheme.codec.traits.needs_server) as nodes:
        outcome = train(scheme, nodes, options.epochs, options.directory)
    print(describe(scheme, outcome))
    return 0 if outcome.accuracy >= 0.8 else 1

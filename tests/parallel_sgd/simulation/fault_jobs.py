"""Small jobs on simulated nodes with faults, and calm ones beside them."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import parallel_sgd
from network.faults.plan import FaultPlan
from parallel_sgd import codec as codecs
from parallel_sgd.record.run import JobResult
from parallel_sgd.record.simulated import Failure

from .test_jobs import STAR, train, weights

LATENCY, STEP = 50e-6, 0.02
EPOCHS, BATCHES = 2, 3


def run(plan: str, codec: str = "Plain", workers: int = 3, **given: Any) -> JobResult:
    """Run a job of two epochs of three batches, each step of 20 ms, with the faults of a plan."""
    kind = getattr(codecs, codec)
    nodes = parallel_sgd.simulated(
        workers,
        given.pop("platform", STAR),
        ps=kind.traits.needs_server,
        compute=given.pop("compute", STEP),
        codec_time=0,
        shared=given.pop("shared", None),
    )
    folder = given.pop("folder", None)
    options = {"epoch": EPOCHS, "steps": BATCHES, "on_failure": "restart", "fault": plan, **given}
    with TemporaryDirectory() as directory:
        return train(nodes, kind, Path(directory) if folder is None else folder, **options)


@cache
def calm(codec: str = "Plain", workers: int = 3) -> tuple[list[bytes], dict[str, float]]:
    """Weights and figures of a job without faults."""
    result = run("", codec, workers)
    assert result.restarts == 0
    return weights(result), dict(result)


def is_calm(result: JobResult, codec: str = "Plain", workers: int = 3) -> bool:
    """Tell if a job has the bits of a calm one, and a ledger without problems."""
    sound = result.ledger is None or not result.ledger.problems
    return sound and (weights(result), dict(result)) == calm(codec, workers)


def failures_of(result: JobResult) -> list[Failure]:
    """The failures of a job."""
    assert result.simulated is not None
    return list(result.simulated.failures)


def drawn(draw: random.Random, clauses: int, workers: int = 3) -> FaultPlan:
    """A plan of random faults in the first two attempts at a job."""
    texts = []
    for _ in range(clauses):
        node, peer = draw.sample(range(workers), 2)
        step = f"@e{draw.randint(1, EPOCHS)}.b{draw.randint(1, BATCHES)}" + draw.choice(["", "", "@a2"])
        link = f"{node}{draw.choice('>-')}{peer}{step}"
        texts.append(
            draw.choice(
                [
                    f"{draw.choice(['kill', 'raise', 'nan', 'stop', 'hang'])} {node}{step}",
                    f"exit {node}{step} code {draw.randint(0, 9)}",
                    f"{draw.choice(['stop', 'hang'])} {node}{step} for {draw.choice(['30ms', '4s', '40s'])}",
                    f"+{draw.choice(['1ms', '500ms~100ms', '3s'])} {link}",
                    f"throttle {link} {draw.choice(['100kbit', '10mbit'])}",
                    f"lose {link} {draw.choice(['10%', '100%'])}",
                    f"{draw.choice(['swallow', 'cut'])} {link} for {draw.choice(['100ms', '20s'])}",
                    f"{draw.choice(['swallow', 'duplicate', 'reorder'])} {link}",
                ]
            )
        )
    return FaultPlan.parse("; ".join(texts))

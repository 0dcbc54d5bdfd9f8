"""What a page costs: jobs of small steps in turns, without one, with one, and with a viewer, who takes all that comes.

Of each job counts the time of a step, from the slower worker's own table, in all epochs but the first; and what submitter and
agents, where the page is made, take of a core while it trains: other programs on the machine change that less.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psgd

import nn
import parallel_sgd
from benchmarks.jobs.small_steps import WORKERS, model, step_of, train
from benchmarks.pairing import quartiles
from benchmarks.processes import cpu_seconds
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd.nodes import LocalNodes
from rpc.support.logs import SUBMIT_LOGGER

WITHOUT, UNSEEN, SEEN = "without a page", "page=True", "page=True, seen"
MODES = (WITHOUT, UNSEEN, SEEN)
VIEWER = "import sys, urllib.request as web; print(sum(map(len, web.urlopen(sys.argv[1].replace('/?', '/events?')))))"
BEGUN, OVER = "Start job", "All the tasks are done"
TRIAL = 101


class Job(NamedTuple):
    """Seconds of a step, and the share of a core that was taken besides what the workers did."""

    step: float
    share: float


class Watch(logging.Handler):
    """Notes when a job begins and is over, and, where it is to be `seen`, opens its page as soon as the address is told."""

    def __init__(self, agents: Sequence[int], seen: bool) -> None:
        super().__init__(logging.INFO)
        self._agents, self._seen = agents, seen
        self._viewer: subprocess.Popen[bytes] | None = None
        self.moments: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith((BEGUN, OVER)):
            self.moments.append((time.monotonic(), time.process_time() + sum(map(cpu_seconds, self._agents))))
        _, found, address = text.partition("http://")
        if found and self._seen:
            self._viewer = subprocess.Popen([sys.executable, "-c", VIEWER, found + address], stdout=subprocess.PIPE)

    def share(self) -> float:
        (begun, used_before), (over, used) = self.moments
        return (used - used_before) / (over - begun)

    def told(self) -> int:
        """How much a viewer was told, in bytes; it has ended with the job."""
        return 0 if self._viewer is None else int(self._viewer.communicate(timeout=60)[0])


@contextlib.contextmanager
def watched(agents: Sequence[int], seen: bool) -> Iterator[Watch]:
    logger, watch = logging.getLogger(SUBMIT_LOGGER), Watch(agents, seen)
    logger.addHandler(watch)
    try:
        yield watch
    finally:
        logger.removeHandler(watch)
    if seen and not watch.told():
        raise RuntimeError("Nobody has seen the page.")


def run(job: parallel_sgd.ParallelSGD, nodes: LocalNodes, folder: str, epochs: int, mode: str) -> Job:
    assert nodes.agents is not None
    with watched(nodes.agents.pids, mode == SEEN) as watch:
        train(job, nodes, folder, epochs, page=mode != WITHOUT)
    return Job(step_of(folder), watch.share())


def measure(rounds: int, seconds: float) -> dict[str, list[Job]]:
    """So many jobs of each kind, each of about so many seconds."""
    logger = logging.getLogger(SUBMIT_LOGGER)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    found: dict[str, list[Job]] = {mode: [] for mode in MODES}
    job = parallel_sgd.ParallelSGD(model(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.local_workers(WORKERS) as nodes:
        begin = time.monotonic()
        run(job, nodes, folder, TRIAL, SEEN)
        epochs = max(TRIAL, round(TRIAL * seconds / (time.monotonic() - begin)))
        for number in range(rounds):
            for mode in reversed(MODES) if number % 2 else MODES:
                found[mode].append(run(job, nodes, folder, epochs, mode))
    return found


def show(found: dict[str, list[Job]]) -> None:
    """Quartiles: of each kind of job, and of the ratios to the job without a page in the same round."""
    for mode, jobs in found.items():
        print(f"{'steps, ' + mode:<44} {_quartiles([1e3 * job.step for job in jobs], 'ms')}", flush=True)
    for mode in MODES[1:]:
        pairs = list(zip(found[mode], found[WITHOUT], strict=True))
        longer = [100 * (job.step / other.step - 1) for job, other in pairs]
        print(f"{mode + ': adds to a step':<44} {_quartiles(longer, '%')}")
        print(f"{mode + ': takes of a core':<44} {_quartiles([100 * (job.share - other.share) for job, other in pairs], '%')}")


def _quartiles(values: Sequence[float], unit: str) -> str:
    low, median, high = quartiles(values)
    return f"{median:9.3f} {unit:<2}   quartiles {low:9.3f} and {high:9.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What a page of a job costs its steps.")
    parser.add_argument("--rounds", type=psgd.positive, default=9, help="jobs of each kind (default 9)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a job (default 20)")
    options = parser.parse_args()
    show(measure(options.rounds, options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())

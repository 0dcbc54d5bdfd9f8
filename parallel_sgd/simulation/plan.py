"""Plan: which codec, how many workers, and how often they exchange, by the predicted time until a model is good enough.

    time to target = steps to target x seconds of a step

Steps come from a few real epochs of each codec, in this process; where the target is not reached in them, 1 - metric is
taken to fall as a power of the epochs. Seconds come from a few simulated steps. A batch has the same blocks for any
number of workers, so that the learning of codecs without loss depends on no number of workers, and that of others little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from network.units import rate_text, time_text
from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent import SGDOptimizer
from nn.model import Model
from nn.optimizer import ParameterAveragingOptimizer
from rpc.support.temporary import TemporaryFolder

from .. import codec as codecs
from ..codec.interfaces import Codec
from ..job import ParallelSGD
from ..nodes import in_process
from ..options.job_options import JobOptions
from ..profiles import FixedBlocks
from ..record.run import JobResult
from .job_check import check_job
from .nodes import simulated
from .platform import Platform
from .steps import step_moments, step_of, table_of
from .usual_model import usual_model

#: Relative error of a simulated step inside of a calibration: the 95th percentile of `benchmarks.simulation.truth`.
_STEP_ERROR: Final = 0.10
#: Least relative error of a forecast beyond the epochs that were learned, and the most epochs of one, as multiples of these.
_FORECAST_ERROR, _FORECAST_MOST = 0.15, 20
#: Workers with which codecs learn: at most so many. On the digits EFSign needs 5.4, 5.7 and 5.4 epochs with 2, 3 and 4 workers
#: and 5.2 with 8, of which ten epochs of Int8 take 32 s here, with 4 workers 5 s.
_LEARNERS: Final = 4
_BATCHES: Final = 5


class Way(NamedTuple):
    """Way of exchanging.

    Args:
        codec: class of the codec.
        every: batches between two exchanges; 1: each.
    """

    codec: type[Codec]
    every: int = 1

    @property
    def name(self) -> str:
        """Name of the codec."""
        return self.codec.__name__

    @property
    def exchange(self) -> str:
        """Words for the steps after which the workers exchange."""
        return "every step" if self.every == 1 else f"every {self.every}"

    def options(self) -> dict[str, Any]:
        """Return the options of a job."""
        if self.every == 1:
            return {"codec": self.codec}
        return {
            "codec": self.codec,
            "op_type": ParameterAveragingOptimizer,
            "codec_extra_parameters": {"local_batches": self.every},
        }


class Timed(NamedTuple):
    """Simulated step of a way, with a number of workers.

    Args:
        seconds: of a step, the mean over exchanges and the steps between them.
        sent: bytes that a worker sends in a step, on the wire.
        causes: seconds of worker 0 in a step by kind of work.
        outside: as `Simulated.outside`.
    """

    seconds: float
    sent: float
    causes: dict[str, float]
    outside: tuple[str, ...]


@dataclass(frozen=True)
class Learned:
    """Learning of a way.

    Args:
        metrics: the metric after each learned epoch.
        epochs: epochs until the target, a fraction within one; None: it is not reached, also by the forecast.
        error: relative error of `epochs`.
    """

    metrics: tuple[float, ...]
    epochs: float | None
    error: float


@dataclass(frozen=True)
class Row:
    """Row of a plan.

    Args:
        way: how the workers exchange.
        workers: their number.
        seconds: predicted time until the target; infinite where it is not reached.
        error: relative error of it.
        sent: bytes that a worker sends until then.
        timed: the simulated step.
        learned: the learning of the way.
    """

    way: Way
    workers: int
    seconds: float
    error: float
    sent: float
    timed: Timed
    learned: Learned

    @property
    def cause(self) -> str:
        """The kind of work that most of the time goes to, with its share."""
        causes = {
            "computing": self.timed.causes.get("compute", 0.0),
            "encoding": self.timed.causes.get("encode", 0.0) + self.timed.causes.get("merge", 0.0),
        }
        whole = sum(self.timed.causes.values()) or 1.0
        causes["the network"] = whole - sum(causes.values())
        name = max(causes, key=lambda key: causes[key])
        return f"{name} {causes[name] / whole:.0%}"

    def data(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "workers": self.workers,
            "codec": self.way.name,
            "every": self.way.every,
            "seconds": self.seconds if math.isfinite(self.seconds) else None,
            "error": round(self.error, 3),
            "sent_bytes": self.sent if math.isfinite(self.sent) else None,
            "cause": self.cause,
            "step_seconds": self.timed.seconds,
            "epochs": self.learned.epochs,
            "learned": list(self.learned.metrics),
            "outside": list(self.timed.outside),
        }


class Planner:
    """Planner for a model and its data.

    Args:
        model: the model, compiled; None: `usual_model` of the shape of the data.
        data: its data.
        transform: of the data; None: none.
        platform: on which steps are simulated.
        blocks: of a batch, at least the largest number of workers.
        block_size: samples of a block.
        learn_rate: of SGD.
        seed: of the jobs.

    Attributes:
        samples: number of samples that are trained on.
        parameters: those of the model.
        simulations: number of simulated settings.
    """

    def __init__(
        self,
        model: Model | None,
        data: AbsDataset,
        transform: AbsTransformer | None,
        platform: Platform,
        *,
        blocks: int,
        block_size: int,
        learn_rate: float = 0.1,
        seed: int = 0,
    ) -> None:
        arrays = data.load() if transform is None else transform(*data.load())
        self.samples = len(arrays[0])
        if model is None:
            model = _model_for(*arrays[:2])
        self.parameters = int(model.store.values.size)
        self._model, self._arrays, self._platform = model, arrays, platform
        self._blocks = blocks
        self._options: dict[str, Any] = {
            "block_size": block_size,
            "seed": seed,
            "verbose": 0,
            "gd_type": SGDOptimizer,
            "gd_params": (learn_rate,),
            "assignment_type": FixedBlocks(blocks),
            "checkpoint_every": None,  # no job of a plan is ever resumed
        }
        self._of_batch = blocks * block_size
        if self.samples < self._of_batch:
            raise ValueError(
                f"'blocks' (by default as many as the most workers) x 'block_size' must be at most "
                f"the {self.samples} samples of the data, got {blocks} x {block_size}"
            )
        self._compute: float | None = None
        self._codec_time: dict[Way, Any] = {}
        self.simulations = 0

    def check(self, way: Way) -> None:
        """Refuse a way that a job of the plan could not take.

        Args:
            way: how they exchange.

        Raises:
            ValueError: naming the codec, and the reason.
        """
        nodes = in_process(min(_LEARNERS, self._blocks), ps=way.codec.traits.needs_server)
        given = JobOptions(nodes, **self._options, **way.options())
        check_job(way.codec, self._model, ArrayDataset(*self._arrays), given)

    def learn(self, way: Way, epochs: int, target: float, workers: int | None = None) -> Learned:
        """Train really, in this process.

        Where the target is close, a forecast that misses it by one sample of the test set would decide which way is the first,
        so the epochs are doubled once if they are forecast to suffice then.

        Args:
            way: how they exchange.
            epochs: number of epochs.
            target: value of the first metric that is to be reached.
            workers: their number; None: up to four, which stand for any number.
        """
        nodes = in_process(workers or min(_LEARNERS, self._blocks), ps=way.codec.traits.needs_server)
        found = Learned((), None, math.inf)
        for count in (epochs, 2 * epochs):
            with TemporaryFolder("plan") as folder:
                found = learned(_metrics(self._train(nodes, way, self._arrays, folder, count)), target)
            if found.epochs is None or max(found.metrics) >= target or found.epochs > 2 * epochs:
                break
        return found

    def time(self, way: Way, workers: int, platform: Platform | None = None, fault: str = "") -> Timed:
        """Simulate a few steps.

        Args:
            way: how the workers exchange.
            workers: their number.
            platform: another one than that of the planner.
            fault: those of the links.
        """
        # two whole cycles, and a batch before them, from which their time is counted (`_mean_step`)
        batches = max(_BATCHES, 2 * way.every + 1)
        rows = np.arange(batches * self._of_batch) % self.samples
        x, y, test_x, test_y = self._arrays
        own = platform or self._platform
        with TemporaryFolder("plan") as folder:
            nodes = simulated(
                workers,
                own,
                ps=way.codec.traits.needs_server,
                # measured in the first simulation: all settings are compared with the same seconds
                compute="measured" if self._compute is None else self._compute,
                codec_time=self._codec_time.get(way, "measured"),
            )
            result = self._train(nodes, way, (x[rows], y[rows], test_x[:1], test_y[:1]), folder, 1, fault=fault)
            moments = step_moments(result)
        found = result.simulated
        if found is None:
            raise ValueError("'nodes' must be simulated ones")
        self._compute = self._compute if found.compute is None else found.compute
        self._codec_time.setdefault(way, dict(found.codec_time) or 0)  # an empty table would lack each codec
        seconds = _mean_step(moments, way.every)
        sent = sum(entry.wire for entry in result.accounts[0] if entry.direction == "sent") / batches
        causes = {name: value / batches for name, value in result.accounts[0].times._asdict().items()}
        self.simulations += 1
        # times that were measured once in the plan and given again are outside of nothing by that
        return Timed(seconds, sent, causes, tuple(found.outside))

    def row(self, way: Way, workers: int, known: Learned, platform: Platform | None = None, fault: str = "") -> Row:
        """Predict a setting.

        Args:
            way: how the workers exchange.
            workers: their number.
            known: the learning of the way.
            platform: another one than that of the planner.
            fault: those of the links.
        """
        timed = self.time(way, workers, platform, fault)
        steps = self.steps(known)
        # errors of two factors that do not depend on each other add up by their squares
        error = math.hypot(_STEP_ERROR, known.error)
        return Row(way, workers, steps * timed.seconds, error, steps * timed.sent, timed, known)

    def steps(self, known: Learned) -> float:
        """Return the steps until the target, infinite where it is not reached.

        Args:
            known: the learning of a way.
        """
        return math.inf if known.epochs is None else known.epochs * math.ceil(self.samples / self._of_batch)

    def real_step(self, way: Way, nodes: Any, fault: str) -> float:
        """Train a few batches on real nodes with faults of their links, and return the median seconds of a step.

        Args:
            way: how the workers exchange.
            nodes: the nodes.
            fault: those of the links.
        """
        batches = max(_BATCHES, 2 * way.every + 1)
        rows = np.arange(batches * self._of_batch) % self.samples
        x, y, test_x, test_y = self._arrays
        with TemporaryFolder("plan") as folder:
            arrays = (x[rows], y[rows], test_x[:1], test_y[:1])
            # links are slow on purpose: no limit of waiting may end the job, or send packets once more
            more = {"fault": fault, "ssgd_timeout_limit": 600_000, "stall_timeout": 600.0}
            result = self._train(nodes, way, arrays, folder, 1, **more)
            # a median spares the noise of a machine, but not of steps some of which exchange
            return step_of(result) if way.every == 1 else _mean_step(step_moments(result), way.every)

    def _train(self, nodes: Any, way: Way, arrays: Any, folder: Path, epochs: int, **more: Any) -> JobResult:
        job = ParallelSGD(self._model, ArrayDataset(*arrays))
        return job.parallel(nodes, epoch=epochs, directory=folder, **self._options, **way.options(), **more)


def _mean_step(moments: Sequence[float], every: int) -> float:
    """Return the mean seconds of a step: over whole cycles of `every` steps, as many as there are, or over all steps."""
    steps = len(moments) - 1
    whole = steps // every * every or steps
    return (moments[-1] - moments[-1 - whole]) / whole


def learned(metrics: Sequence[float], target: float) -> Learned:
    """Tell when a target is reached, by interpolation, or by a power law of 1 - metric.

    The law is that of the later half of the epochs, since curves of learning fall faster in their first epochs than it
    (Hestness et al., 2017); where nothing falls there, that of all.

    Args:
        metrics: after each epoch.
        target: the value to be reached, below 1.
    """
    values = tuple(float(value) for value in metrics)
    for number, value in enumerate(values):
        if value >= target:
            # before the first epoch the metric counts as 0; within an epoch it may lie anywhere, so half of one is the
            # error
            before = values[number - 1] if number else 0.0
            epochs = number + (target - before) / max(value - before, 1e-9)
            return Learned(values, epochs, 0.5 / (number + 1))
    # one point has no line, and 0 has no logarithm
    if len(values) < 2 or not all(0 < value < 1 for value in values):
        return Learned(values, None, math.inf)
    x, y = np.log(np.arange(1, len(values) + 1)), np.log(1 - np.array(values))
    half = max(0, min((len(values) - 1) // 2, len(values) - 3))  # a line through two points would be that of noise
    slope, level = np.polyfit(x[half:], y[half:], 1)
    if slope >= 0:
        half = 0
        slope, level = np.polyfit(x, y, 1)
    if slope >= 0:
        return Learned(values, None, math.inf)
    logarithm = (math.log(1 - target) - level) / slope
    if logarithm > math.log(_FORECAST_MOST * len(values)):  # beyond what exp() has a number for where nearly nothing falls
        return Learned(values, None, math.inf)
    epochs = math.exp(logarithm)
    rest = float(np.abs(y - (slope * x + level))[half:].max())
    # none of the learned epochs has reached it
    return Learned(values, max(epochs, len(values)), max(_FORECAST_ERROR, rest / abs(float(slope))))


def _model_for(x: Any, labels: Any) -> Model:
    if x.ndim != 2 or labels.ndim != 2 or labels.shape[1] < 2:
        raise ValueError(
            "without 'model' samples must be rows of numbers, and labels one-hot rows of classes, got the shapes "
            f"{x.shape[1:]} and {labels.shape[1:]}"
        )
    return usual_model(x.shape[1], labels.shape[1])


def _metrics(result: JobResult) -> list[float]:
    rows = table_of(result, "EV-")
    # the first metric, of which the target is a value
    name = next(name for name in rows[0] if name not in ("Loss", "Epoch", "Time", "node"))
    return [float(row[name]) for row in rows]


def plan(
    planner: Planner,
    ways: Sequence[Way],
    workers: Sequence[int],
    *,
    target: float,
    epochs: int,
    limit: float,
    on_step: Callable[[str], None] = lambda _: None,
) -> tuple[list[Row], dict[str, Any]]:
    """Learn and simulate all settings, and rank them.

    Args:
        planner: of the model.
        ways: how workers may exchange.
        workers: numbers of workers.
        target: value of the first metric that is to be reached.
        epochs: learned of each way.
        limit: seconds after which settings that were not simulated are left out; at least half of them are for these.
        on_step: called with the name of each step as it begins.

    Raises:
        ValueError: naming a way that a job of the plan could not take, before anything runs.

    Returns:
        The rows, best first, those outside of the calibration behind; and figures of the plan: `learned` and `simulated`
        (seconds), `settings`, and `left`, settings that there was no time for.
    """
    for way in ways:
        planner.check(way)  # none may fail when others have learned for half a minute
    began = time.monotonic()
    known = {}
    for way in ways:
        on_step(f"learning with {way.name}, {way.exchange}")
        known[way] = planner.learn(way, epochs, target)
    between = time.monotonic()
    until = max(began + limit, between + limit / 2)  # learning is not for nothing
    rows, left = [], 0
    for count in workers:  # when there is no more time, every way has a row for the smaller numbers
        for way in ways:
            if time.monotonic() > until:
                left += 1
                continue
            on_step(f"{way.name}, {count} workers")
            rows.append(planner.row(way, count, known[way]))
    rows.sort(key=lambda row: (not math.isfinite(row.seconds), bool(row.timed.outside), row.seconds))
    figures = {"learned": between - began, "simulated": time.monotonic() - between, "settings": len(rows), "left": left}
    return rows, figures


def usual_ways(names: Sequence[type[Codec]], local_steps: Sequence[int]) -> list[Way]:
    """Return the ways of codecs: each in every step, and averages of parameters in every so many steps.

    Args:
        names: the classes of the codecs.
        local_steps: batches between two averages; 1 is left out.
    """
    return [*map(Way, names), *(Way(codecs.LocalSGD, every) for every in local_steps if every > 1)]


def throttled(platform: Platform, workers: int) -> str:
    """Return faults of links by which workers of this machine have a plain star's ports.

    A port that a worker shares with itself among w - 1 others is a link of 1 / (w - 1) of its bandwidth to each.

    Args:
        platform: a star.
        workers: their number.

    Raises:
        ValueError: The platform has another shape.
    """
    if not platform.is_plain_star or platform.bandwidth is None or platform.latency is None:
        raise ValueError(f"--check needs a star without a backbone, whose links this machine can imitate, got {platform.shape}")
    rate = rate_text(platform.bandwidth / max(workers - 1, 1))
    late = f"; +{time_text(platform.latency)} {{0}}-{{1}}" if platform.latency >= 1e-4 else ""
    pairs = combinations(range(workers), 2)
    return "; ".join(f"throttle {{0}}-{{1}} {rate}{late}".format(*pair) for pair in pairs)

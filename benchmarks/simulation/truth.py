"""Simulated jobs beside real ones: how far off predicted steps are, on links of this machine that are throttled and late.

    python -m benchmarks.simulation.truth                      tier A: settings in which the network is 80 % of a step
    python -m benchmarks.simulation.truth --tier B             all others, reported and not judged
    python -m benchmarks.simulation.truth --sample 8           some of them, drawn by --seed
    python -m benchmarks.simulation.truth --keep FILE          each row is in the file at once; what it has is not run again

A real job runs on local workers, whose links pass a proxy with the faults `throttle` and a delay; the simulated one has
the same faults on a platform that is calibrated first, in a minute. A machine that does other things is slower, never
faster: a setting that ran at a load of more than one per core runs again (--repeats), and its fastest run counts. Exit
code 0: in tier A the median error is at most 5 % and the 95th percentile at most 10 %; 1 else.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import psgd

import numpy as np

import nn
import parallel_sgd
from benchmarks import machine
from benchmarks.simulation import drawing
from benchmarks.simulation.figures import Kept, origin
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import codec as codecs
from parallel_sgd.nodes import LocalWorkers
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.calibrate import calibrate
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import platform_from_toml, platform_of, platform_to_toml
from parallel_sgd.simulation.steps import step_of
from rpc.support.processors import load_per_core

CODECS: Final = ("Plain", "Int8", "TopK", "EFSign", "Ring")
WORKERS: Final = (2, 4)
RATES: Final = (1, 2, 10)
"""In Mbit/s."""
DELAYS: Final = (0, 20, 200)
"""In milliseconds."""
CALIBRATED: Final = 5
"""Mbit/s of the links while steps are calibrated: none of `RATES`."""
BLOCK, BATCHES, SHARE = 4, 7, 0.8
MEDIAN_GOAL, TAIL_GOAL = 0.05, 0.10


class Setting(NamedTuple):
    """Setting of a comparison.

    Args:
        codec: its name.
        workers: their number.
        rate: of each pair, in Mbit/s.
        delay: of each pair, in milliseconds.
    """

    codec: str
    workers: int
    rate: float
    delay: float

    @property
    def fault(self) -> str:
        """Faults of all links, as both jobs have them."""
        clauses = []
        for here, there in combinations(range(self.workers), 2):
            clauses.append(f"throttle {here}-{there} {self.rate}mbit")
            if self.delay:
                clauses.append(f"+{self.delay}ms {here}-{there}")
        return "; ".join(clauses)


class Row(NamedTuple):
    """Outcome of a setting, in seconds a step.

    Args:
        setting: the setting.
        real: the measured step.
        simulated: the predicted one.
        share: of the network in the predicted step.
        load: processes per core while the counted run went on.
        causes: predicted minus measured seconds by kind of work of worker 0.
    """

    setting: Setting
    real: float
    simulated: float
    share: float
    load: float
    causes: dict[str, float]

    @property
    def error(self) -> float:
        """Relative error, above 0 where the prediction is too long."""
        return self.simulated / self.real - 1

    @property
    def by_cause(self) -> tuple[float, float, float]:
        """Relative error that sits in computing, in codecs, and elsewhere."""
        compute = self.causes.get("compute", 0.0)
        codec = self.causes.get("encode", 0.0) + self.causes.get("merge", 0.0)
        return compute / self.real, codec / self.real, (self.simulated - self.real - compute - codec) / self.real

    @property
    def beside(self) -> tuple[float, float]:
        """Seconds of the step beside its network, as that is predicted: measured and simulated."""
        network = self.share * self.simulated
        return self.real - network, self.simulated - network

    def data(self) -> dict[str, Any]:
        """Return the row as a file has it: times to a microsecond."""
        causes = {name: round(value, 6) for name, value in self.causes.items()}
        figures = {"real": round(self.real, 6), "simulated": round(self.simulated, 6)}
        return {
            **self.setting._asdict(),
            **figures,
            "share": round(self.share, 3),
            "load": round(self.load, 1),
            "causes": causes,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Row:
        """Return the row of an entry of a file.

        Args:
            data: as `data()` gives it.
        """
        setting = Setting(*(data[name] for name in Setting._fields))
        return Row(setting, *(data[name] for name in Row._fields[1:]))


def model_of() -> nn.model.SequentialModel:
    """Return a network of 50,890 parameters."""
    model = nn.model.SequentialModel(input_shape=[-1, 784])
    model.add(nn.layer.Dense(64, activation="tanh"))
    model.add(nn.layer.Dense(10, activation="softmax"))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model


def train(nodes: Any, setting: Setting, folder: str, fault: str) -> JobResult:
    """Train seven batches."""
    random_, count = np.random.default_rng(1), BLOCK * setting.workers * BATCHES
    x = random_.random((count + BLOCK, 784), np.float32)
    y = np.eye(10, dtype=np.float32)[random_.integers(0, 10, len(x))]
    job = parallel_sgd.ParallelSGD(model_of(), ArrayDataset(x[:count], y[:count], x[count:], y[count:]))
    return job.parallel(
        nodes,
        codec=getattr(codecs, setting.codec),
        block_size=BLOCK,
        epoch=1,
        gd_type=SGDOptimizer,
        gd_params=(0.05,),
        fault=fault,
        ssgd_timeout_limit=600_000,
        stall_timeout=600.0,
        directory=folder,
        verbose=0,
    )


def compare(setting: Setting, nodes: LocalWorkers, platform: Platform, repeats: int) -> Row:
    """Run both jobs of a setting."""
    real, load, causes = float("inf"), 0.0, {}
    with TemporaryDirectory() as folder:
        ideal = train(parallel_sgd.simulated(setting.workers, platform), setting, folder, "")
        shown = train(parallel_sgd.simulated(setting.workers, platform), setting, folder, setting.fault)
        simulated = step_of(shown)
        for _ in range(repeats):
            result = train(nodes, setting, folder, setting.fault)
            busy = load_per_core()
            if (step := step_of(result)) < real:
                real, load = step, busy
                causes = {
                    name: (theirs - ours) / BATCHES
                    for name, theirs, ours in zip(
                        shown.accounts[0].times._fields, shown.accounts[0].times, result.accounts[0].times, strict=True
                    )
                }
            if busy <= 1:
                break
        share = 1 - step_of(ideal) / simulated
    return Row(setting, real, simulated, share, load, causes)


def settings_of(tier: str, sample: int | None, seed: int) -> list[Setting]:
    """Return the settings of a tier, or some of them."""
    if tier == "A":
        found = [Setting(*each) for each in product(CODECS, WORKERS, RATES, DELAYS)]
    else:
        found = [Setting(*each) for each in product(CODECS, (2, 4, 8), (10, 100, 1000), (0,))]
    if sample is not None:
        found = random.Random(seed).sample(found, min(sample, len(found)))
    return sorted(found, key=lambda setting: setting.workers)


def calibrated(most: int, codecs_: Iterable[str], model: nn.model.Model) -> Platform:
    """Return the platform of this machine's workers, whose links pass the proxy.

    Args:
        most: number of workers.
        codecs_: names of the codecs whose times are measured.
        model: whose block step is timed.
    """
    # a slow link, as those that are compared: what a step costs beside its network is then spread over the time of the messages
    near = "; ".join(f"throttle {here}-{there} {CALIBRATED}mbit" for here, there in combinations(range(most), 2))
    with parallel_sgd.local_workers(most) as nodes:
        return calibrate(nodes, [getattr(codecs, name) for name in codecs_], model, block_size=BLOCK, fault=near)


def rows_of(settings: Sequence[Setting], platform: Platform, repeats: int) -> Iterator[Row]:
    """Yield the outcome of each setting."""
    for workers, group in groupby(settings, key=lambda setting: setting.workers):
        with parallel_sgd.local_workers(workers) as nodes:
            for setting in group:
                yield compare(setting, nodes, platform, repeats)


HEAD = (
    f"{'codec':7} workers  Mbit/s     ms   measured  simulated   error  network  load  error by cause (compute, codecs, rest)"
)


def told(row: Row) -> str:
    """Return a line of the table."""
    codec, workers, rate, delay = row.setting
    causes = ", ".join(f"{part:+.1%}" for part in row.by_cause)
    return (
        f"{codec:7} {workers:7} {rate:7} {delay:6} {1e3 * row.real:8.1f} ms {1e3 * row.simulated:7.1f} ms {row.error:+7.1%} "
        f"{row.share:7.0%} {row.load:6.1f}  {causes}"
    )


def summary(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Return median, 95th percentile and largest of the errors of rows."""
    errors = [abs(row.error) for row in rows]
    tail = quantiles(errors, n=20, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return median(errors), tail, max(errors)


def judged_of(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of tier A: those in which the network is most of a step."""
    return [row for row in rows if row.share >= SHARE]


def part(content: Mapping[str, Any]) -> str:
    """Return the part of the guide that a file of rows makes.

    Args:
        content: that of the file.
    """
    rows = [Row.of(each) for each in content["rows"]]
    platform = platform_from_toml(content["platform"])
    control = "" if platform.calibration is None else f"; {platform.calibration.system.rpartition(', ')[2]}"
    lines = [
        f"{origin(content)}{control}.",
        "",
        "| Codec | workers | Mbit/s | ms | measured, ms | simulated, ms | error | network | of it compute | codecs | rest |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row.share < SHARE, row.setting)):
        causes = " | ".join(f"{each:+.1%}" for each in row.by_cause)
        codec, workers, rate, delay = row.setting
        lines.append(
            f"| {codec} | {workers} | {rate} | {delay} | {1e3 * row.real:.1f} | {1e3 * row.simulated:.1f} | {row.error:+.1%} "
            f"| {row.share:.0%} | {causes} |"
        )
    inside = judged_of(rows)
    for name, some in (
        ("the network is at least 80 % of a step", inside),
        ("it is less", [r for r in rows if r not in inside]),
    ):
        if some:
            middle, tail, most = summary(some)
            lines += [
                "",
                f"{len(some)} settings in which {name}: median error {middle:.1%}, 95th percentile {tail:.1%}, "
                f"largest {most:.1%}.",
            ]
    return "\n".join([*lines, "", *_where(rows)])


def _where(rows: Sequence[Row]) -> list[str]:
    """Return where the error sits: the settings of tier A beyond the goal, and what steps take beside their network."""
    far = sorted((row for row in judged_of(rows) if abs(row.error) > TAIL_GOAL), key=lambda row: row.error)
    named = [
        f"{codec}, {workers} workers, {rate} Mbit/s, {delay} ms: {row.error:+.1%}, {1e3 * (row.simulated - row.real):+.0f} ms"
        for row in far
        for codec, workers, rate, delay in [row.setting]
    ]
    lines = [
        f"Of these {len(far)} are off by more than {TAIL_GOAL:.0%}{': ' if named else ''}{'; '.join(named)}.",
        "",
        "| Beside the network a step takes, median in ms | workers | measured | simulated | of tier A too short | too long |",
        "|---|---|---|---|---|---|",
    ]
    for (codec, workers), group in groupby(sorted(rows, key=lambda row: row.setting), key=lambda row: row.setting[:2]):
        own = list(group)
        measured, simulated = (median(row.beside[place] for row in own) for place in (0, 1))
        short, long = (sum(sign * row.error > 0 for row in judged_of(own)) for sign in (-1, 1))
        lines.append(f"| {codec} | {workers} | {1e3 * measured:.1f} | {1e3 * simulated:.1f} | {short} | {long} |")
    return lines


def scatter(*contents: Mapping[str, Any]) -> str:
    """Return the scatter plot of predicted beside measured steps.

    Args:
        contents: those of the files of both tiers.
    """
    rows = [Row.of(each) for content in contents for each in content["rows"]]
    dots = {
        name: [(1e3 * row.real, 1e3 * row.simulated) for row in rows if row.setting.codec == name]
        for name in CODECS
        if any(row.setting.codec == name for row in rows)
    }
    return drawing.scatter(
        "Simulated beside measured: milliseconds of a step",
        f"{len(rows)} settings, each a dot; lines: equal times, and {TAIL_GOAL:.0%} more or less.",
        ("measured, milliseconds", "simulated, milliseconds"),
        dots,
        TAIL_GOAL,
    )


def main(given: Sequence[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=("A", "B"), default="A")
    parser.add_argument("--platform", metavar="FILE", help="a calibration to use; default: it is made first")
    parser.add_argument("--repeats", type=psgd.positive, default=3, metavar="N", help="runs of a setting at most; default 3")
    parser.add_argument("--sample", type=psgd.positive, metavar="N", help="so many settings, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw; default 0")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the rows, where an earlier run goes on")
    options = parser.parse_args(given)
    logging.disable(logging.WARNING)
    machine.show()
    settings = settings_of(options.tier, options.sample, options.seed)
    words = f"python -m benchmarks.simulation.truth --tier {options.tier} --repeats {options.repeats}"
    kept = Kept(options.keep, words)
    rows = [Row.of(row) for row in kept.rows]
    if options.platform is not None:
        platform = platform_of(options.platform)
    elif "platform" in kept.content:
        platform = platform_from_toml(kept.content["platform"])
    else:
        platform = calibrated(max(setting.workers for setting in settings), CODECS, model_of())
    kept.content["platform"] = platform_to_toml(platform)
    kept.write()
    print(f"# {platform.describe()}; {platform.calibration.system if platform.calibration else 'not calibrated'}")
    print(HEAD, flush=True)
    known = {row.setting for row in rows}
    for row in rows_of([setting for setting in settings if setting not in known], platform, options.repeats):
        rows.append(row)
        kept.add(row.data())
        print(told(row) + ("" if row.share >= SHARE or options.tier == "B" else "   outside of tier A"), flush=True)
    judged = rows if options.tier == "B" else judged_of(rows)
    if not judged:
        print("No setting has a network of 80 % of a step.")
        return 1
    middle, tail, most = summary(judged)
    print(f"{len(judged)} settings: median error {middle:.1%}, 95th percentile {tail:.1%}, largest {most:.1%}")
    return int(options.tier == "A" and not (middle <= MEDIAN_GOAL and tail <= TAIL_GOAL))


if __name__ == "__main__":
    sys.exit(main())

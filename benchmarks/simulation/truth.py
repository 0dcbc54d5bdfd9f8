"""Simulated jobs beside real ones: how far off predicted steps are, on links of this machine that are throttled and late.

    python -m benchmarks.simulation.truth                      tier A: settings in which the network is 80 % of a step
    python -m benchmarks.simulation.truth --tier B             all others, reported and not judged
    python -m benchmarks.simulation.truth --sample 8           some of them, drawn by --seed

A real job runs on local workers, whose links pass a proxy with the faults `throttle` and a delay; the simulated one has
the same faults on a platform that is calibrated first, in a minute. A machine that does other things is slower, never
faster: a setting that ran at a load of more than one per core runs again (--repeats), and its fastest run counts. Exit
code 0: in tier A the median error is at most 5 % and the 95th percentile at most 10 %; 1 else.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Iterator, Sequence
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
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import codec as codecs
from parallel_sgd.nodes import LocalWorkers
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.calibrate import calibrate
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import platform_of, platform_to_toml
from parallel_sgd.simulation.steps import step_of
from rpc.support.processors import load_per_core

CODECS: Final = ("Plain", "Int8", "TopK", "EFSign", "Ring")
WORKERS: Final = (2, 4)
RATES: Final = (1, 2, 10)
"""In Mbit/s."""
DELAYS: Final = (0, 20, 200)
"""In milliseconds."""
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
    rate: int
    delay: int

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


def rows_of(settings: Sequence[Setting], platform: Platform | None, repeats: int) -> Iterator[tuple[Row, Platform]]:
    """Yield the outcome of each setting, with the platform on which it was predicted."""
    if platform is None:
        most = max(setting.workers for setting in settings)
        near = "; ".join(f"+0.01ms {here}-{there}" for here, there in combinations(range(most), 2))  # by way of the proxy
        with parallel_sgd.local_workers(most) as all_of_them:
            platform = calibrate(
                all_of_them, [getattr(codecs, name) for name in CODECS], model_of(), block_size=BLOCK, fault=near
            )
    for workers, group in groupby(settings, key=lambda setting: setting.workers):
        with parallel_sgd.local_workers(workers) as nodes:
            for setting in group:
                yield compare(setting, nodes, platform, repeats), platform


HEAD = (
    f"{'codec':7} workers  Mbit/s     ms   measured  simulated   error  network  load  error by cause (compute, codecs, rest)"
)


def told(row: Row) -> str:
    """Return a line of the table."""
    codec, workers, rate, delay = row.setting
    codecs_ = row.causes.get("encode", 0.0) + row.causes.get("merge", 0.0)
    rest = row.simulated - row.real - row.causes.get("compute", 0.0) - codecs_
    parts = ", ".join(f"{part / row.real:+.1%}" for part in (row.causes.get("compute", 0.0), codecs_, rest))
    return (
        f"{codec:7} {workers:7} {rate:7} {delay:6} {1e3 * row.real:8.1f} ms {1e3 * row.simulated:7.1f} ms {row.error:+7.1%} "
        f"{row.share:7.0%} {row.load:6.1f}  {parts}"
    )


def main(given: Sequence[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=("A", "B"), default="A")
    parser.add_argument("--platform", metavar="FILE", help="a calibration to use; default: it is made first")
    parser.add_argument("--repeats", type=psgd.positive, default=3, metavar="N", help="runs of a setting at most; default 3")
    parser.add_argument("--sample", type=psgd.positive, metavar="N", help="so many settings, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw; default 0")
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    options = parser.parse_args(given)
    logging.disable(logging.WARNING)
    machine.show()
    platform = None if options.platform is None else platform_of(options.platform)
    rows, shown = [], None
    print(HEAD)
    for row, own in rows_of(settings_of(options.tier, options.sample, options.seed), platform, options.repeats):
        if own is not shown:
            shown = own
            print(f"# {own.describe()}; {own.calibration.system if own.calibration else 'not calibrated'}", flush=True)
        inside = row.share >= SHARE
        rows.append(row)
        print(told(row) + ("" if inside or options.tier == "B" else "   outside of tier A"), flush=True)
    if options.json:
        table = [{**row._asdict(), "setting": row.setting._asdict(), "error": row.error} for row in rows]
        Path(options.json).write_text(
            json.dumps({"platform": platform_to_toml(shown) if shown else "", "rows": table}, indent=1)
        )
    judged = [abs(row.error) for row in rows if row.share >= SHARE or options.tier == "B"]
    if not judged:
        print("No setting has a network of 80 % of a step.")
        return 1
    middle, tail = median(judged), quantiles(judged, n=20, method="inclusive")[-1] if len(judged) > 1 else judged[0]
    print(f"{len(judged)} settings: median error {middle:.1%}, 95th percentile {tail:.1%}, largest {max(judged):.1%}")
    return int(options.tier == "A" and not (middle <= MEDIAN_GOAL and tail <= TAIL_GOAL))


if __name__ == "__main__":
    sys.exit(main())

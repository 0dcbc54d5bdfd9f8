"""Choices of `psgd plan` beside exhaustive runs, on links of this machine that are throttled and late.

    python -m benchmarks.simulation.regret                     20 networks that nothing was fitted on, drawn by --seed
    python -m benchmarks.simulation.regret --keep FILE         each row is in the file at once; what it has is not made again
    python -m benchmarks.simulation.regret --keep FILE --only 12..20 --minutes 20     a part of them

For each network a plan names the codec that reaches the target first. Then steps of each codec run on local workers, and the
same codec learns with as many workers in this process, which has the bits of the run: their product is the real time. Regret
is that of the plan's choice beside the shortest. A network is drawn again where it takes less than 80 % of the chosen codec's
predicted step, or is one of those of `benchmarks.simulation.truth`. Exit code 0: all are measured, predicted times of the
choices are within 10 % (median), and the regret of each is at most 5 %; 1 else.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import psgd

import nn
import parallel_sgd
from benchmarks import machine
from benchmarks.simulation.figures import Kept, origin
from benchmarks.simulation.truth import BLOCK, CODECS, DELAYS, RATES, SHARE, Setting, calibrated
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd import codec as codecs
from parallel_sgd.simulation.plan import Learned, Planner, Way
from parallel_sgd.simulation.platform_text import platform_from_toml, platform_to_toml
from parallel_sgd.simulation.usual_model import usual_model
from rpc.support.processors import load_per_core

WORKERS: Final = (2, 3, 4)
BLOCKS: Final = 12
TARGET, PLANNED, LEARNED = 0.9, 6, 12
"""Accuracy, epochs that a plan learns, and epochs of the real learning."""
ERROR_GOAL, REGRET_GOAL = 0.10, 0.05


class Tried(NamedTuple):
    """Codec on a network, in the plan and in runs.

    Args:
        setting: codec and network.
        predicted: seconds until the target, by the plan.
        real: the same, by runs; infinite where the target is not reached.
        share: of the network in the predicted step.
        load: processes per core while the counted run went on.
    """

    setting: Setting
    predicted: float
    real: float
    share: float
    load: float

    @property
    def error(self) -> float:
        """Relative error, above 0 where the prediction is too long."""
        return self.predicted / self.real - 1


class Choice(NamedTuple):
    """Choice of a plan for a network.

    Args:
        chosen: the codec that the plan puts first.
        best: the one that was the fastest.
        tried: all of them.
    """

    chosen: Tried
    best: Tried
    tried: Sequence[Tried]

    @property
    def regret(self) -> float:
        """Time by which the choice takes longer than the fastest, as a share of that."""
        return self.chosen.real / self.best.real - 1


class Plans:
    """Plans for networks, and the real learning of their codecs.

    Args:
        planner: of the model.
        kept: the file, which has what was learned and predicted before.
    """

    def __init__(self, planner: Planner, kept: Kept) -> None:
        self.planner, self._kept = planner, kept
        self._known = cache(lambda name: planner.learn(_way(name), PLANNED, TARGET))
        self._ideal = cache(lambda name, workers: planner.time(_way(name), workers).seconds)

    def predict(self, setting: Setting) -> tuple[float, float]:
        """Return the predicted seconds until the target, and the share of the network in a step.

        Args:
            setting: codec and network.
        """

        def made() -> list[float]:
            known: Learned = self._known(setting.codec)
            row = self.planner.row(_way(setting.codec), setting.workers, known, fault=setting.fault)
            return [row.seconds, 1 - self._ideal(setting.codec, setting.workers) / row.timed.seconds]

        seconds, share = self._kept.once(f"predicted {setting}", made)
        return seconds, share

    def steps(self, name: str, workers: int) -> float:
        """Return the steps that a codec really needs until the target.

        Args:
            name: that of the codec.
            workers: their number.
        """

        def made() -> float:
            return self.planner.steps(self.planner.learn(_way(name), LEARNED, TARGET, workers))

        steps: float = self._kept.once(f"steps {name} {workers}", made)
        return steps


def _way(name: str) -> Way:
    return Way(getattr(codecs, name))


def networks(plans: Plans, count: int, seed: int) -> Iterator[list[tuple[Setting, float, float]]]:
    """Draw networks of tier A; yield for each the codecs with their predicted seconds and the share of the network in a step.

    Args:
        plans: those of the model.
        count: number of networks.
        seed: of the draw.
    """
    draw = random.Random(seed)
    found = 0
    while found < count:
        workers, rate, delay = draw.choice(WORKERS), float(f"{10 ** draw.uniform(-0.3, 1):.2g}"), draw.randint(20, 400)
        if rate in RATES and delay in DELAYS:
            continue
        settings = [Setting(name, workers, rate, delay) for name in CODECS]
        each = [(setting, *plans.predict(setting)) for setting in settings]
        if min(each, key=lambda entry: entry[1])[2] >= SHARE:
            found += 1
            yield each


def rows_of(
    plans: Plans, drawn: Iterable[list[tuple[Setting, float, float]]], known: set[Setting], repeats: int
) -> Iterator[Tried]:
    """Yield the outcome of each codec on each network that is not known.

    Args:
        plans: those of the model.
        drawn: networks.
        known: settings that have run.
        repeats: runs of a setting at most, of which the fastest counts.
    """
    with ExitStack() as stack:
        nodes_of = cache(lambda workers: stack.enter_context(parallel_sgd.local_workers(workers)))
        for setting, predicted, share in (entry for each in drawn for entry in each if entry[0] not in known):
            step, load = math.inf, 0.0
            for _ in range(repeats):
                found = plans.planner.real_step(_way(setting.codec), nodes_of(setting.workers), setting.fault)
                busy = load_per_core()
                if found < step:
                    step, load = found, busy
                if busy <= 1:
                    break
            real = plans.steps(setting.codec, setting.workers) * step
            yield Tried(setting, predicted, real, share, load)


def choices(rows: Sequence[Tried]) -> list[Choice]:
    """Return the choice for each network whose codecs have all run.

    Args:
        rows: outcomes.
    """
    found = []
    for _, group in groupby(sorted(rows, key=lambda row: row.setting[1:]), key=lambda row: row.setting[1:]):
        tried = list(group)
        if len(tried) == len(CODECS):
            found.append(Choice(min(tried, key=lambda row: row.predicted), min(tried, key=lambda row: row.real), tried))
    return found


def data(row: Tried) -> dict[str, Any]:
    """Return a row as a file has it.

    Args:
        row: the row.
    """
    times = {name: float(f"{getattr(row, name):.6g}") for name in ("predicted", "real")}
    return {**row.setting._asdict(), **times, "share": round(row.share, 3), "load": round(row.load, 1)}


def tried_of(entry: Mapping[str, Any]) -> Tried:
    """Return the row of an entry of a file.

    Args:
        entry: as `data` gives it.
    """
    return Tried(Setting(*(entry[name] for name in Setting._fields)), *(entry[name] for name in Tried._fields[1:]))


def told(choice: Choice) -> str:
    """Return a line of the table.

    Args:
        choice: that for a network.
    """
    _, workers, rate, delay = choice.chosen.setting
    return (
        f"| {workers} | {rate:g} | {delay} | {choice.chosen.setting.codec} | {choice.chosen.predicted:.1f} "
        f"| {choice.chosen.real:.1f} | {choice.chosen.error:+.1%} | {choice.best.setting.codec} | {choice.best.real:.1f} "
        f"| {choice.regret:.1%} |"
    )


HEAD: Final = (
    "| Workers | Mbit/s | ms | choice | predicted, s | real, s | error | fastest | its real, s | regret |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def summary(found: Sequence[Choice]) -> str:
    """Return the sentence below the table.

    Args:
        found: the choices.
    """
    errors, regrets = [abs(choice.chosen.error) for choice in found], [choice.regret for choice in found]
    every = [abs(row.error) for choice in found for row in choice.tried if row.share >= SHARE and math.isfinite(row.error)]
    return (
        f"{len(found)} networks: the choice's time is off by {median(errors):.1%} (median) and at most {max(errors):.1%}; its "
        f"regret is {max(regrets):.1%} at most, and above {REGRET_GOAL:.0%} in {sum(one > REGRET_GOAL for one in regrets)} of "
        f"them. All {len(every)} predicted times of tier A are off by {median(every):.1%} (median), "
        f"{sum(each <= ERROR_GOAL for each in every)} of them by at most {ERROR_GOAL:.0%}."
    )


def part(content: Mapping[str, Any]) -> str:
    """Return the part of the guide that a file of rows makes.

    Args:
        content: that of the file.
    """
    found = choices([tried_of(row) for row in content["rows"]])
    return "\n".join([f"{origin(content)}.", "", HEAD, *map(told, found), "", summary(found)])


def numbers(text: str) -> range:
    """Return the numbers of a range such as `12..20`, or that of `12`.

    Args:
        text: the range.

    Raises: argparse.ArgumentTypeError for another text.
    """
    first, _, last = text.partition("..")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found or found[0] < 1:
        raise argparse.ArgumentTypeError(f"must be a range such as 12..20, or a number from 1, got {text!r}")
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=psgd.positive, default=20, metavar="N", help="how many; default 20")
    parser.add_argument("--repeats", type=psgd.positive, default=3, metavar="N", help="runs of a setting at most; default 3")
    parser.add_argument("--seed", type=int, default=1, help="of the draw; default 1")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the rows, where an earlier run goes on")
    parser.add_argument("--only", type=numbers, metavar="N..M", help="networks of the draw, by their numbers from 1")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="begin no setting after so many")
    options = parser.parse_args(given)
    began = time.monotonic()
    logging.disable(logging.WARNING)
    machine.show()
    words = f"--networks {options.networks} --repeats {options.repeats} --seed {options.seed}"
    kept = Kept(options.keep, f"python -m benchmarks.simulation.regret {words}")
    model = usual_model(64)
    if "platform" in kept.content:
        platform = platform_from_toml(kept.content["platform"])
    else:
        platform = calibrated(max(WORKERS), CODECS, model)
        kept.content["platform"] = platform_to_toml(platform)
        kept.write()
    print(f"# {platform.describe()}", flush=True)
    transform = Shuffle().add(ImageCls())
    plans = Plans(Planner(model, nn.dataset.Digits(), transform, platform, blocks=BLOCKS, block_size=BLOCK), kept)
    drawn = list(enumerate(networks(plans, options.networks, options.seed), 1))
    wanted = [each for number, each in drawn if options.only is None or number in options.only]
    rows = [tried_of(row) for row in kept.rows]
    known = {row.setting for row in rows}
    print(f"{'codec':7} workers  Mbit/s     ms  predicted       real    error  network  load", flush=True)
    for row in rows_of(plans, wanted, known, options.repeats):
        rows.append(row)
        kept.add(data(row))
        codec, workers, rate, delay = row.setting
        print(
            f"{codec:7} {workers:7} {rate:7} {delay:6} {row.predicted:8.1f} s {row.real:8.1f} s {row.error:+8.1%} "
            f"{row.share:8.0%} {row.load:5.1f}",
            flush=True,
        )
        if time.monotonic() - began > 60 * options.minutes:
            break
    found = choices(rows)
    have = {row.setting for row in rows}
    left = [str(number) for number, each in drawn if not all(setting in have for setting, *_ in each)]
    if left:
        print(f"Networks that are not measured: {', '.join(left)} of {len(drawn)}. The same command goes on with them.")
    if not found:
        return 1
    print("\n".join([HEAD, *map(told, found), summary(found)]))
    regrets = [choice.regret for choice in found]
    missed = max(regrets) > REGRET_GOAL or median(abs(choice.chosen.error) for choice in found) > ERROR_GOAL
    return int(missed or bool(left))


if __name__ == "__main__":
    sys.exit(main())

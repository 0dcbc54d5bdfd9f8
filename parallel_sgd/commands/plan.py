"""Command that ranks codecs, numbers of workers and exchanges by predicted time to a target, and checks the first ones."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from nn.progress import Bar
from rpc.submit import telling
from rpc.support.console import columns_of, in_columns
from rpc.support.logs import QUIET, SUBMIT_LOGGER, get_logger, is_quiet, verbosity
from rpc.support.processors import load_per_core

from ..nodes import local_workers
from ..options.named_parts import codec as codec_named
from ..record.numbers import seconds
from ..simulation.plan import Planner, Row, throttled, usual_ways
from ..simulation.plan import plan as make_plan
from ..simulation.platform import Platform
from ..simulation.platform_text import platform_of
from .options import load_model, make_dataset, make_transform
from .output import tell

CODECS: Final = "Plain,Ring,Int8,TopK,EFSign"
_SHOWN: Final = 8  # rows, without --all
#: Of all checks together, on a machine that does other things: a step is then timed again, and the fastest counts.
_CHECK_SECONDS: Final = 30.0
_HEAD: Final = ("", "workers", "codec", "exchange", "time to target", "sent a worker", "its time goes to", "beside the best")


def plan(options: argparse.Namespace) -> int:
    """Make a plan and print it; return the exit code.

    Args:
        options: those of the command line.

    Raises: ValueError naming the option.
    """
    with telling("The plan", get_logger(SUBMIT_LOGGER), whole=True):
        return _plan(options)


def _plan(options: argparse.Namespace) -> int:
    platform = platform_of(options.platform)
    counts = _workers(options.workers)
    if not 0 < options.target < 1:
        raise ValueError(f"--target must be a share between 0 and 1, got {options.target:g}.")
    names = list(dict.fromkeys(codec_named("--codecs", name.strip()) for name in options.codecs.split(",")))
    ways = usual_ways(names, list(dict.fromkeys(options.local_steps)))
    blocks = options.blocks or max(counts)
    if blocks < max(counts):
        raise ValueError(f"--blocks must be at least the largest number of workers, {max(counts)}, got {blocks}.")
    platform.fitted(max(counts))  # refused now where it has too few hosts, not when ways have learned
    if options.check:
        throttled(platform, 2)  # as well: not every platform can be imitated here
    model = None if options.model is None else load_model(options.model)
    with (
        verbosity(QUIET),
        Bar(total=len(ways) * (1 + len(counts)), desc="plan", leave=False, disable=is_quiet() or None) as bar,
    ):

        def begins(step: str) -> None:
            bar.set_description(f"plan: {step}")
            bar.update()

        planner = Planner(
            model,
            make_dataset(options.dataset),
            make_transform(options.transform),
            platform,
            blocks=blocks,
            block_size=options.block_size,
            learn_rate=options.learn_rate,
        )
        rows, figures = make_plan(
            planner, ways, counts, target=options.target, epochs=options.epochs, limit=options.limit, on_step=begins
        )
    checks = [_checked(planner, row, platform, _CHECK_SECONDS / options.check) for row in _reached(rows)[: options.check]]
    content = {
        "simulated": True,
        "platform": platform.describe(),
        "target": options.target,
        **figures,
        "rows": [row.data() for row in rows],
        "checks": checks,
    }
    words = _words(options, platform, planner, rows, figures)
    return tell(options, content, "\n".join([*words, *map(_told, checks)]), done="The plan is made", seconds=None)


def _workers(text: str) -> list[int]:
    """Return the numbers of workers that `2..64` (powers of two, and the ends) or `4,6,8` stand for."""
    error = ValueError(
        f"--workers must be a range such as 2..64, or numbers such as 4,8,16, each from 2 to 10000, got {text!r}."
    )
    try:
        if ".." in text:
            low, high = (int(part) for part in text.split(".."))
            # 2 ** 13 is the last power below 10,000
            found = sorted({low, high, *(2**power for power in range(1, 14) if low <= 2**power <= high)})
        else:
            found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise error from None
    if found[0] < 2 or found[-1] > 10_000 or (".." in text and low > high):
        raise error
    return found


def _reached(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if math.isfinite(row.seconds)]


def _words(
    options: argparse.Namespace, platform: Platform, planner: Planner, rows: Sequence[Row], figures: dict[str, Any]
) -> list[str]:
    reached = _reached(rows)
    shown = reached if options.all else reached[:_SHOWN]
    most = max((len(row.learned.metrics) for row in rows), default=options.epochs)
    epochs = f"{options.epochs}" if most == options.epochs else f"{options.epochs} to {most}"
    lines = [
        f"Simulated, not measured. Platform: {platform.describe()}{'' if platform.calibration else '; not calibrated'}.",
        f"Model of {planner.parameters:,} parameters, target {options.target:g}. Learned {epochs} real epochs of "
        f"{len({row.way for row in rows})} ways to exchange ({figures['learned']:.0f} s), "
        f"simulated {figures['settings']} settings ({figures['simulated']:.0f} s).",
        "",
    ]
    if shown:
        best = shown[0].seconds
        rows_shown = [_HEAD, *(_columns(number, row, best) for number, row in enumerate(shown, 1))]
        lines.append(in_columns(rows_shown, columns_of(sys.stdout)))
        lines.append("")
        lines += _advice(reached)
        if any(row.timed.outside for row in shown):
            lines.append(
                f"? outside of what was calibrated ({'; '.join(next(r for r in shown if r.timed.outside).timed.outside)})."
            )
    if missed := len(rows) - len(reached):
        lines.append(f"{missed} settings do not reach {options.target:g} in the forecast of {options.epochs} epochs.")
    if figures["left"]:
        lines.append(f"{figures['left']} settings were left out after {options.limit:g} s (--limit).")
    if len(reached) > len(shown):
        lines.append(f"{len(reached) - len(shown)} further settings: --all.")
    return lines


def _columns(number: int, row: Row, best: float) -> tuple[str, ...]:
    doubt = "?" if row.timed.outside else ""
    return (
        f"{number}.",
        f"{row.workers}{doubt}",
        row.way.name,
        row.way.exchange,
        f"{_duration(row.seconds)} ±{'?' if doubt else f'{row.error:.0%}'}",
        _bytes(row.sent),
        row.cause,
        "" if row.seconds == best else f"+{row.seconds / best - 1:.0%}",
    )


def _advice(rows: Sequence[Row]) -> list[str]:
    """Return how much more workers help the way of the best row."""
    way = rows[0].way
    of_way = sorted((row for row in rows if row.way == way), key=lambda row: row.workers)
    steps = [
        f"{fewer.workers} to {more.workers} workers: {fewer.seconds / more.seconds:.2g} times as fast"
        for fewer, more in pairwise(of_way)
    ]
    return [f"{way.name}, {way.exchange}: {'; '.join(steps)}."] if steps else []


def _checked(planner: Planner, row: Row, platform: Platform, limit: float) -> dict[str, Any]:
    """Run some steps of a row on workers of this machine, with the links of the platform; none begin after `limit` seconds."""
    fault = throttled(platform, row.workers)
    began = time.monotonic()
    fastest = math.inf
    with verbosity(QUIET), local_workers(row.workers, row.way.codec.traits.needs_server) as nodes:
        # once at least, however long the workers took to start
        while time.monotonic() - began < limit or not math.isfinite(fastest):
            fastest = min(fastest, planner.real_step(row.way, nodes, fault))
            if load_per_core() <= 1:  # on a machine without other work one try is enough
                break
    return {
        "workers": row.workers,
        "codec": row.way.name,
        "every": row.way.every,
        "predicted": row.timed.seconds,
        "measured": fastest,
        "error": row.timed.seconds / fastest - 1,
        "load": load_per_core(),
    }


def _told(check: dict[str, Any]) -> str:
    took, predicted = 1e3 * check["measured"], 1e3 * check["predicted"]
    return (
        f"Checked here, throttled: {check['workers']} workers with {check['codec']}: a step took {took:.1f} ms, "
        f"predicted {predicted:.1f} ms ({check['error']:+.0%}), at a load of {check['load']:.1f} per core."
    )


def _duration(value: float) -> str:
    # three digits of short ones: settings may differ by little
    return seconds(value, 3)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"

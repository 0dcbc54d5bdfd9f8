"""Page that compares runs: the settings that differ, their figures, and the curves of all over epochs, seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import inf, isfinite
from typing import Any, Final

from nn.model.history import VALIDATION
from parallel_sgd.record.defaults import defaults
from parallel_sgd.record.door import Door
from parallel_sgd.record.history import BYTES, CLIENT_BYTES, EPOCH, SECONDS, JobHistory
from parallel_sgd.record.machine import SIMULATED
from parallel_sgd.record.numbers import figure, seconds
from parallel_sgd.record.settings import settings_of_run
from parallel_sgd.record.simulated import is_time_only
from rpc.submit.run_folder import find_run

from . import tables
from .data import best_of, crowd_of, effort_in, platform_of
from .records import RunRecords
from .report import curve, document, embedded

__all__ = ["compare_page", "differences", "figures_of"]
_MOST_POINTS: Final = 1_200
_ABSENT: Final = "-"
_RESUME: Final = "resume"
_RESTARTS: Final = "restarts"
#: Figures that some runs have alone stand below those of all.
_LAST: Final = ("speed-up", "bytes sent", "bytes of clients", "clients' clock", _RESTARTS, SIMULATED)
#: Names of figures as the page shows them, where they are not those of the console.
_FIGURE: Final = {
    "best": "best epoch",
    "one worker alone": "one worker alone would have needed, at most",
    "speed-up": "times as fast as one worker alone, at most",
}


def differences(runs: Sequence[RunRecords]) -> dict[str, list[str]]:
    """Return the settings in which runs differ, by name: the value of each run, the default where it has none.

    Raises: RecordError.
    """
    settings = [_with_names(settings_of_run(Door(run.folder)), run) for run in runs]
    names = dict.fromkeys(name for each in settings for name in each if name != "mission_title")
    # an empty text, as of no parameters of the rule, is the default, too
    known = defaults()
    found = {name: [each.get(name) or known.get(name) or "default" for each in settings] for name in names}
    return {name: values for name, values in found.items() if len(set(values)) > 1}


def _with_names(settings: Mapping[str, str], run: RunRecords) -> Mapping[str, str]:
    """Return settings in which the run that another one went on from has its name, as long as it lies beside it."""
    if _RESUME not in settings:
        return settings
    before = find_run(run.folder.parent, settings[_RESUME])
    return settings if before is None else {**settings, _RESUME: before.path.name}


def figures_of(run: RunRecords) -> dict[str, str]:
    """Return the results of a run, as texts by name: its state, figures, best epoch, seconds, and bytes sent by all nodes."""
    outcome = run.outcome
    found = {"state": str(outcome.get("state", "not ended"))}
    platform = platform_of(run)
    if not is_time_only(platform):
        found |= {f"test {name}": figure(value) for name, value in (outcome.get("figures") or {}).items()}
    if platform:
        found[SIMULATED] = platform
    history = run.history
    best = best_of(run, history)
    found["best"] = _ABSENT if best is None else str(best)
    effort = effort_in(run)
    found["training took"] = _ABSENT if effort is None else seconds(effort.seconds)
    found["one worker alone"] = _ABSENT if effort is None else seconds(effort.alone)
    # speed-ups of workers that share cores say nothing
    if effort is not None and effort.workers > 1 and crowd_of(run) is None:
        found["speed-up"] = f"{effort.speed_up:#.2g}".rstrip(".")
    # a worker that took its figures of steps with it has taken those of its packets, too
    least = "at least " * bool(history.untold)
    if BYTES in history.columns():
        found["bytes sent"] = f"{least}{sum(history[BYTES]):,.0f}"
    if history.clients:
        found["bytes of clients"] = f"{least}{sum(history[CLIENT_BYTES]):,.0f}"
    if history.rounds:
        found["clients' clock"] = seconds(history.rounds[-1]["ends"])
    if outcome.get("incidents"):
        found[_RESTARTS] = str(len(outcome["incidents"]))
    return found


def rows_of(figures: Sequence[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """Return the rows of a table of several runs: the name of each figure, and that figure of every run.

    Args:
        figures: those of each run.

    >>> rows_of([{"simulated on": "star", "best": "-"}, {"best": "epoch 2", "restarts": "1"}])
    [('best', '-', 'epoch 2'), ('restarts', '0', '1'), ('simulated on', 'star', '-')]
    """
    names = dict.fromkeys(name for each in figures for name in each)
    ordered = sorted(names, key=lambda name: _LAST.index(name) if name in _LAST else -1)
    return [(name, *(each.get(name, "0" if name == _RESTARTS else _ABSENT) for each in figures)) for name in ordered]


def compare_page(runs: Sequence[RunRecords]) -> str:
    """Return a page of one file on the `runs`, which needs no network. Raises: RecordError."""
    names = [run.folder.name for run in runs]
    differing = differences(runs)
    results = rows_of([figures_of(run) for run in runs])
    result = _compared(names, [(_FIGURE.get(name, name), *values) for name, *values in results], "Results")
    # a value that is absent is the default
    rows = [(name, *values) for name, values in differing.items()]
    settings = _compared(names, rows, "Settings") if rows else "<p>All settings are equal.</p>"
    lines = {per: list(_lines(runs, per)) for per in (EPOCH, SECONDS, BYTES)}
    metrics = list(dict.fromkeys(line["metric"] for line in lines[EPOCH]))
    charts = "".join(curve(number, name) for number, name in enumerate(metrics))
    buttons = '<div class="buttons"><button data-per="epoch" aria-pressed="true">by epoch</button>'
    buttons += '<button data-per="seconds" aria-pressed="false">by second</button>'
    buttons += '<button data-per="bytes" aria-pressed="false">by byte sent</button></div>'
    note = (
        "The mean over the workers of each run, in training solid, on the test samples dashed. Where curves are equal, that of "
    )
    note += "the run named first is seen on both sides of the other. Bytes are the contents of packets that all nodes of a run "
    note += "together had sent"
    if any(run.history.clients for run in runs):
        note += (
            ", of a run with clients those that these had sent and got, whose seconds are those of their clock if they have one"
        )
    note = f'<p class="note drawn">{note}; a run without tables of them has no curve by byte.</p>'
    curves = f'{note}{buttons}<div class="pair drawn">{charts}</div>' if charts else "<p>None has left a table.</p>"
    sections = (("result", "Results", result), ("settings", "What differs", settings), ("curves", "Curves", curves))
    main = "".join(f'<section id="{name}"><h2>{title}</h2>{content}</section>' for name, title, content in sections)
    title = " and ".join(names) if len(names) == 2 else f"{len(names)} runs"
    head = f"<h1>{escape(title)}</h1><p>Compared {tables.stamp(max(_ends(runs)))}, when the last of them had ended.</p>"
    return document(title, head, main, embedded({"curves": {"names": metrics, **lines}}))


def _compared(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Return a table with a column for each run."""
    return f'<div class="compared">{tables.table(["", *names], rows, caption)}</div>'


def _ends(runs: Sequence[RunRecords]) -> list[float]:
    return [float(run.outcome.get("ended", 0.0)) for run in runs]


def _lines(runs: Sequence[RunRecords], per: str) -> Iterator[dict[str, Any]]:
    """Yield the curves of all runs: of each figure in training and on test data."""
    histories = [run.history for run in runs]
    names = dict.fromkeys(name.removeprefix(VALIDATION) for each in histories for name in each.columns() if name != EPOCH)
    for name in names:
        for number, (run, history) in enumerate(zip(runs, histories, strict=True)):
            for column in (name, VALIDATION + name):
                points = list(_points(history, column, per))
                if points:
                    test = column != name
                    label = f"{run.folder.name}{' test' if test else ''}"
                    common = {
                        "metric": name,
                        "label": label,
                        "name": run.folder.name,
                        "mean": True,
                        "test": test,
                        "run": number,
                    }
                    # every n-th point: enough to see, and small enough for a page
                    yield {**common, "points": points[:: -(-len(points) // _MOST_POINTS)]}


def _points(history: JobHistory, column: str, per: str) -> Iterator[list[float]]:
    ends: Mapping[tuple[float, float], float] = {}
    if per == BYTES:
        ends = history.bytes_until() if history.tells_bytes else {}
    elif per != EPOCH:
        ends = history.seconds_until()
    for row in history.rows:
        place = row[EPOCH] if per == EPOCH else ends.get((row[EPOCH], inf))
        if place is not None and column in row and isfinite(row[column]):
            yield [place, float(f"{row[column]:.6g}")]

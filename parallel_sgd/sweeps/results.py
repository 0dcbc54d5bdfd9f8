"""Results of a sweep: a row per run, mean and spread over the seeds, as a frame, as CSV, and as a table of LaTeX."""

from __future__ import annotations

import csv
import io
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nn import arguments
from nn.model.history import put_out
from rpc.support.files import publish

from ..record.history import EPOCH, SECONDS
from .labels import DEFAULT
from .runs import DONE, PER, Told

__all__ = ["RESULTS", "SUMMARY", "TABLE", "Row", "SweepResult", "mean_curve"]

RESULTS: Final = "results.csv"
SUMMARY: Final = "summary.csv"
TABLE: Final = "table.tex"
_MODE: Final = 0o644
_COUNTS: Final = ("epochs", "bytes", "seconds")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_SPECIAL: Final = str.maketrans({**{letter: f"\\{letter}" for letter in "&%$#_{}"}, "~": r"\textasciitilde{}",
                                 "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"})  # fmt: skip
_FIGURE_DIGITS: Final = 4
_MOST_DECIMALS: Final = 9  # of a figure in a table


@dataclass(frozen=True)
class Row:
    """Run of a sweep with its settings.

    Args:
        labels: by setting, the text that stands for its value.
        seed: seed of weights and order.
        workers: number of workers.
        identity: identity of the run.
        told: state and figures.
    """

    labels: Mapping[str, str]
    seed: int
    workers: int
    identity: str
    told: Told

    @property
    def measured(self) -> dict[str, float]:
        """Figures, bytes and seconds of a run that is done; none of another one."""
        if self.told.state != DONE:
            return {}
        counts = {"epochs": self.told.epochs, "bytes": self.told.bytes, "seconds": self.told.seconds}
        return {**self.told.figures, **{name: float(value) for name, value in counts.items() if value is not None}}

    def curve(self, figure: str, per: str) -> dict[int, tuple[float, float]]:
        """Return the place on an axis and the figure at the end of each epoch, as far as both are told and finite.

        Args:
            figure: name of the figure, that on test data where there are some.
            per: the axis, one of PER.
        """
        found = {}
        for point in self.told.points:
            place, value = point.place(per), point.tested.get(figure)
            # a metric may not be defined for some samples, and a mean with one would be none
            if place is not None and value is not None and math.isfinite(value):
                found[point.epoch] = (place, value)
        return found


class SweepResult:
    """Result of a sweep.

    Args:
        title: name of the sweep.
        folder: folder of its tables and its page.
        rows: a row per run, in the order of the grid.

    Attributes:
        problem: why a table or the page could not be written, "" where all of them are.

    >>> result = parallel_sgd.sweep(job, {"codec": ["plain", "topk"]}, seeds=5)  # doctest: +SKIP
    >>> result.to_frame(), result.mean(), result.to_latex()  # doctest: +SKIP
    """

    def __init__(self, title: str, folder: Path, rows: Iterable[Row]) -> None:
        self.title, self.folder, self.rows = title, folder, list(rows)
        self.problem = ""

    @property
    def settings(self) -> list[str]:
        """Names of the settings that differ between runs."""
        return list(self.rows[0].labels) if self.rows else []

    @property
    def names(self) -> list[str]:
        """Names of figures, bytes and seconds that runs have told."""
        told = dict.fromkeys(name for row in self.rows for name in row.measured)
        return [*(name for name in told if name not in _COUNTS), *(name for name in _COUNTS if name in told)]

    def count(self, state: str) -> int:
        """Return the number of runs in a state: `done`, `failed`, `interrupted` or `not run`."""
        return sum(row.told.state == state for row in self.rows)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the head and the rows of `results.csv`."""
        settings, names = self.settings, self.names
        own = ["seed", *([] if "workers" in settings else ["workers"])]
        head = ["run", "state", *settings, *own, *names, "clock", "message", "identity"]
        rows = [
            [
                row.told.folder,
                row.told.state,
                *row.labels.values(),
                row.seed,
                *([] if "workers" in settings else [row.workers]),
                *(row.measured.get(name, "") for name in names),
                row.told.clock if row.told.state == DONE else "",
                row.told.message,
                row.identity,
            ]
            for row in self.rows
        ]
        return head, rows

    def summary(self) -> tuple[list[str], list[list[Any]]]:
        """Return the head and the rows of `summary.csv`: for each combination the number of runs that are done and, over
        their seeds, mean and standard deviation (of a sample, n - 1) of each figure.
        """
        names = self.names
        head = [*self.settings, "runs", *(f"{name} {what}" for name in names for what in ("mean", "std"))]
        rows: list[list[Any]] = []
        for labels, own in self.grouped():
            found: list[Any] = [*labels, sum(row.told.state == DONE for row in own)]
            for name in names:
                mean, spread = spread_of([row.measured[name] for row in own if name in row.measured])
                found += ["" if math.isnan(mean) else mean, "" if math.isnan(spread) else spread]
            rows.append(found)
        return head, rows

    def grouped(self) -> list[tuple[tuple[str, ...], list[Row]]]:
        """Return the rows by the labels of their settings, in order."""
        found: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.labels.values()), []).append(row)
        return list(found.items())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per run, as `results.csv`; absent figures are NaN."""
        import pandas  # noqa: PLC0415 - needed here only

        head, rows = self.table()
        numbers = {"seed", "workers", *self.names} - set(self.settings)  # settings are labels, which stay texts
        frame = pandas.DataFrame(rows, columns=head)
        for name in numbers:
            frame[name] = pandas.to_numeric(frame[name])
        return frame

    def mean(self) -> Any:
        """Return a pandas DataFrame with a row per combination: the number of runs, mean and standard deviation of figures.

        Settings are its index; its columns have two levels, the figure, and `mean` or `std`.
        """
        import pandas  # noqa: PLC0415 - needed here only

        head, rows = self.summary()
        frame = pandas.DataFrame(rows, columns=head).set_index(self.settings)
        pairs = [(name, what) for name in self.names for what in ("mean", "std")]
        frame.columns = pandas.MultiIndex.from_tuples([("runs", ""), *pairs])
        return frame.apply(pandas.to_numeric)

    def to_latex(self, names: Sequence[str] | None = None) -> str:
        """Return a table of LaTeX with a row per combination: mean and standard deviation of figures over the seeds.

        Args:
            names: the figures; None for loss, metrics, bytes and seconds.

        Raises: ValueError for a name that no run has told.
        """
        chosen = [name for name in self.names if name != "epochs"] if names is None else list(names)
        for name in chosen:
            arguments.one_of("SweepResult.to_latex()", "names", name, self.names)
        heads, cells = self._cells(chosen, r" $\pm$ ")
        settings = self.settings
        columns = "l" * len(settings) + "r" * (1 + len(chosen))
        lines = [f"% {self.title}: mean and standard deviation over the seeds; runs: how many are done"]
        if "seconds" in chosen:
            lines.append(f"% seconds are {self.clock}")
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\hline"]
        lines.append(_line([*map(_escaped, settings), "runs", *map(_escaped, heads)]))
        lines.append(r"\hline")
        for (labels, own), values in zip(self.grouped(), cells, strict=True):
            lines.append(_line([*map(_escaped, labels), str(sum(row.told.state == DONE for row in own)), *values]))
        return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])

    def plot(
        self, path: str | os.PathLike[str] | None = None, figure: str | None = None, x: str = EPOCH, over: str | None = None
    ) -> None:
        """Draw a figure on test data over epochs, bytes or seconds, a line per combination: the mean over the seeds at the end
        of each epoch, in a band of one standard deviation (n - 1) to either side, at the mean of the bytes or seconds.

        Args:
            path: file of the kind that its ending names, such as `.pdf`; None shows it in a notebook.
            figure: name of the figure, such as "accuracy"; None for the first metric, or the loss.
            x: "epoch", "bytes" or "seconds"; of runs with clients the bytes and the clock of these.
            over: the setting by which runs are grouped; None for all that differ.

        Raises: ValueError for another figure, axis or setting, and where no run has told them; ImportError without matplotlib.
        """
        owner = "SweepResult.plot()"
        arguments.one_of(owner, "x", x, PER)
        done = [row for row in self.rows if row.told.state == DONE]
        figures = list(dict.fromkeys(name for row in done for point in row.told.points for name in point.tested))
        if not figures:
            raise ValueError(f"{owner} needs a run that is done, got none")
        # the loss stands before the metrics
        name = (figures[1:] or figures)[0] if figure is None else arguments.one_of(owner, "figure", figure, figures)
        varied = [each for each in self.settings if len({row.labels[each] for row in done}) > 1] or self.settings
        chosen = varied if over is None else [arguments.one_of(owner, "over", over, self.settings)]
        groups: dict[str, list[Row]] = {}
        for row in done:
            groups.setdefault(", ".join(row.labels[each] for each in chosen), []).append(row)
        lines = {label: found for label, own in groups.items() if (found := mean_curve(own, name, x))}
        if not lines:
            raise ValueError(f"{owner} 'x' must be an axis that the runs have told, got {x!r}")
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ImportError(f"{owner} needs matplotlib: pip install matplotlib") from error
        unit, factor, _ = _scale(x, [place for points in lines.values() for place, *_ in points])
        drawn = Figure(figsize=(5, 3.6), layout="constrained")
        panel = drawn.subplots()
        for label, points in lines.items():
            places, means, spreads = map(list, zip(*points, strict=True))
            places = [place / factor for place in places]
            (line,) = panel.plot(places, means, label=label, marker="o", markersize=3)
            low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
            panel.fill_between(places, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        panel.set_xlabel(f"seconds, {self.clock}" if x == SECONDS else f"{x} ({unit})" if unit else x)
        panel.set_ylabel(name)
        panel.grid(alpha=0.3)
        panel.legend()
        put_out(drawn, owner, path, "sweep.png")

    @property
    def clock(self) -> str:
        """Whether seconds are measured or simulated, or both."""
        return " and ".join(dict.fromkeys(row.told.clock for row in self.rows if row.told.state == DONE)) or "measured"

    def told(self) -> list[tuple[str, ...]]:
        """Return mean and spread of each combination as texts for people, the head first."""
        names = [name for name in self.names if name != "epochs"]
        heads, cells = self._cells(names, " ± ")
        found: list[tuple[str, ...]] = [(*self.settings, "runs", *heads)]
        for (labels, own), values in zip(self.grouped(), cells, strict=True):
            done = sum(row.told.state == DONE for row in own)
            found.append((*labels, f"{done}" if done == len(own) else f"{done} of {len(own)}", *values))
        return found

    def _cells(self, names: Sequence[str], between: str) -> tuple[list[str], list[list[str]]]:
        """Return the heads of figures, with their units, and the cells of each combination."""
        groups = [own for _, own in self.grouped()]
        heads: list[str] = []
        columns: list[list[str]] = []
        for name in names:
            pairs = [spread_of([row.measured[name] for row in own if name in row.measured]) for own in groups]
            unit, factor, digits = _scale(name, [mean for mean, _ in pairs if not math.isnan(mean)])
            heads.append(f"{name} ({unit})" if unit else name)
            columns.append([_cell(mean / factor, spread / factor, digits, between) for mean, spread in pairs])
        return heads, [list(cells) for cells in zip(*columns, strict=True)] if columns else [[] for _ in groups]

    def write(self, *, whole: bool = True) -> None:
        """Write `results.csv` into the folder.

        Args:
            whole: write `summary.csv` and `table.tex`, too.

        Raises: OSError.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        publish(self.folder / RESULTS, _csv(*self.table()), _MODE)
        if whole:
            publish(self.folder / SUMMARY, _csv(*self.summary()), _MODE)
            publish(self.folder / TABLE, self.to_latex(), _MODE)

    def __repr__(self) -> str:
        states = dict.fromkeys(row.told.state for row in self.rows)
        return f"SweepResult({self.title}: {', '.join(f'{self.count(state)} {state}' for state in states)}; {self.folder})"

    def _repr_html_(self) -> str:
        """Show mean and spread of each combination as an HTML table, for notebooks."""
        from nn.html import table  # noqa: PLC0415 - for notebooks alone

        head, *rows = self.told()
        return table(f"Sweep {self.title}", list(head), [list(row) for row in rows])


def mean_curve(rows: Sequence[Row], figure: str, per: str) -> list[tuple[float, float, float]]:
    """Return mean place, mean and standard deviation of a figure at the end of each epoch that all runs which tell it have; the
    deviation of a single run is 0.

    Args:
        rows: the runs.
        figure: name of the figure.
        per: the axis, one of PER.
    """
    runs = [points for row in rows if (points := row.curve(figure, per))]
    found = []
    # of all alike: where a run ends early, the mean of the others would jump
    for epoch in sorted(set.intersection(*(set(run) for run in runs))) if runs else ():
        places, values = zip(*(run[epoch] for run in runs), strict=True)
        mean, spread = spread_of(values)
        found.append((statistics.fmean(places), mean, 0.0 if math.isnan(spread) else spread))
    return found


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation of a sample; NaN where there are too few values."""
    mean = statistics.fmean(values) if values else math.nan
    return mean, statistics.stdev(values) if len(values) > 1 else math.nan


def _scale(name: str, means: Sequence[float]) -> tuple[str, float, int]:
    """Return unit, factor and digits with which a column is shown."""
    if name != "bytes":
        small = [abs(mean) for mean in means if mean and math.isfinite(mean)] or [1.0]
        # four digits of the smallest figure, three of the shortest time, where more decimals are needed for them
        wanted, least = (3, 2) if name == "seconds" else (4, _FIGURE_DIGITS)
        digits = max(least, min(_MOST_DECIMALS, wanted - 1 - math.floor(math.log10(min(small)))))
        return ("s" if name == "seconds" else ""), 1.0, digits
    told = [mean for mean in means if mean >= 1] or [1.0]  # 0 has no logarithm
    power = min(len(_UNITS) - 1, int(math.log10(max(told)) // 3))
    # the smallest has three digits, too
    digits = max(0, 2 - math.floor(math.log10(min(told) / 1000**power))) if power else 0
    return _UNITS[power], 1000.0**power, digits


def _cell(mean: float, spread: float, digits: int, between: str) -> str:
    if math.isnan(mean):
        return DEFAULT
    return f"{mean:.{digits}f}" if math.isnan(spread) else f"{mean:.{digits}f}{between}{spread:.{digits}f}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    return text.translate(_SPECIAL)


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()

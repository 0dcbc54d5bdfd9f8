"""Page of a sweep in one file: mean and spread, and curves over epochs, seconds and bytes, by any setting."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from rpc.support.files import publish

from ..record.history import BYTES
from ..run_page import tables
from ..run_page.report import document, embedded
from .results import Row, SweepResult, mean_curve
from .runs import DONE, FAILED, INTERRUPTED, NOT_RUN, OF_CLIENTS, PER, SIMULATED

__all__ = ["PAGE", "write_page"]
PAGE: Final = "sweep.html"
_MODE: Final = 0o644
_ALL: Final = "all settings"
#: Runs up to which each has a thin line.
_MOST_THIN: Final = 300
_DIGITS: Final = 6
_CHOICE: Final = """
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-by]")) {
    button.addEventListener("click", () => {
      page.curves = page.groups[button.dataset.by];
      document.querySelectorAll("[data-by]").forEach(each => each.setAttribute("aria-pressed", String(each === button)));
      drawCurves();
    });
  }
});
"""


def write_page(result: SweepResult) -> Path:
    """Write the page of a sweep into its folder; return its path.

    Args:
        result: the result of the sweep.

    Raises: OSError.
    """
    path = result.folder / PAGE
    # a page to hand on: for others to read, and whole or not at all
    publish(path, _page_of(result), _MODE)
    return path


def _page_of(result: SweepResult) -> str:
    """Return the page, which needs no network."""
    done = [row for row in result.rows if row.told.state == DONE]
    names = list(dict.fromkeys(name for row in done for point in row.told.points for name in point.tested))
    varied = [name for name in result.settings if len({row.labels[name] for row in result.rows}) > 1]
    # a setting that all have alike tells no curve from another
    keys = {_ALL: varied or result.settings, **{name: [name] for name in varied}}
    groups = {
        by: {"names": names, **{per: list(_lines(done, chosen, names, per)) for per in PER}} for by, chosen in keys.items()
    }
    charts = "".join(
        f'<figure><h3>{escape(name)}</h3><div class="chart" id="curve-{number}" role="img" aria-label="{escape(name)}"></div>'
        "</figure>"
        for number, name in enumerate(names)
    )
    # a mean and its deviation stay in one line on a phone
    head, *rows = ([str(cell).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for cell in row] for row in result.told())
    sections = [("result", "Mean and spread", f'<p class="note">{_spread(result)}</p>{tables.table(head, rows, "Results")}')]
    if charts:
        note = f'<p class="note drawn">{escape(_note(result))}</p>'
        buttons = _buttons("per", ((per, f"by {'byte sent' if per == BYTES else per.rstrip('s')}") for per in PER))
        choice = _buttons("by", ((by, by) for by in keys)) if len(varied) > 1 else ""
        sections.append(("curves", "Curves", f'{note}{buttons}{choice}<div class="pair drawn">{charts}</div>'))
    columns, every = result.table()
    shown = [[value if not isinstance(value, str) else value[:120] for value in row[:-1]] for row in every]
    sections.append(("runs", "Runs", tables.folded("All runs", tables.table(columns[:-1], shown, "All runs"))))
    main = "".join(f'<section id="{name}"><h2>{title}</h2>{content}</section>' for name, title, content in sections)
    states = ", ".join(
        f"{result.count(state)} {state}" for state in (DONE, FAILED, INTERRUPTED, NOT_RUN) if result.count(state)
    )
    top = f"<h1>{escape(result.title)}</h1><p>Sweep of {len(result.rows)} runs: {states}; {tables.stamp(time.time())}.</p>"
    return document(
        result.title, top, main, embedded({"curves": groups[_ALL], "groups": groups, "clock": result.clock}), further=_CHOICE
    )


def _spread(result: SweepResult) -> str:
    return escape(
        f"Mean ± standard deviation over the seeds (n - 1), on test data after the last epoch. Seconds are {result.clock}."
    )


def _note(result: SweepResult) -> str:
    clock = result.clock
    if clock == SIMULATED:
        times = "Seconds are simulated: those of a virtual clock."
    elif clock == OF_CLIENTS:
        times = "Seconds are those of the clients' clock."
    else:
        times = f"Seconds are {clock}: from the first batch to the end of an epoch, while other runs may have had other cores"
        times += "; workers of one process take turns."
    return (
        "On test data where there are some. In bold the mean over the runs of a group, whose place is that of their mean "
        "seconds or bytes at the end of each epoch; each run thin. Where curves are equal, that of the group named "
        "first is seen on both sides of the other. Bytes are the contents of packets that all nodes of a run "
        f"together had sent, of runs with clients those that these had sent and got. {times}"
    )


def _buttons(kind: str, choices: Iterable[tuple[str, str]]) -> str:
    made = [
        f'<button data-{kind}="{escape(value, quote=True)}" aria-pressed="{str(not number).lower()}">{escape(text)}</button>'
        for number, (value, text) in enumerate(choices)
    ]
    return f'<div class="buttons">{"".join(made)}</div>'


def _lines(rows: Sequence[Row], chosen: Sequence[str], names: Sequence[str], per: str) -> Iterator[dict[str, Any]]:
    """Yield the curves of the groups of rows that have the chosen settings alike: of each its mean, and its runs thin."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(", ".join(row.labels[name] for name in chosen), []).append(row)
    for metric in names:
        for number, (label, own) in enumerate(groups.items()):
            common = {"metric": metric, "name": label, "test": False, "run": number}
            mean = [_rounded((place, value)) for place, value, _ in mean_curve(own, metric, per)]
            if mean:
                yield {**common, "label": label, "mean": True, "points": mean}
            if len(rows) <= _MOST_THIN and len(own) > 1:
                for row in own:
                    thin = [_rounded(point) for point in row.curve(metric, per).values()]
                    if thin:
                        told = {"label": f"{label}, {row.told.folder}", "mean": False, "width": 0.8, "opacity": 0.35}
                        yield {**common, **told, "points": thin}


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]

"""Parts of a page that need no script: figures, tables, events; all text is escaped."""

from __future__ import annotations

import base64
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any, Final

from nn.model.history import History

from ..record.numbers import seconds
from .records import Batch, RunRecords, Runs
from .terms import ORDER, PHASES, WAIT, figure, term, word, worker

_DIGITS: Final = 3  # of a time: parts that are compared, and that add up to others
_EXACT: Final = dict(PHASES.values())
_LEDGER: Final = "ledger: of each block of each batch it tells which worker computed it, and if it was applied"


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str, exact: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a table that can be scrolled; numbers stand to the right.

    Args:
        head: names of the columns.
        rows: the cells of each row.
        caption: label of the table.
        exact: word in its head: the tooltip of that word.
    """
    kinds = [""] * len(head)
    body = []
    for row in rows:
        cells = []
        for place, value in enumerate(row):
            number = isinstance(value, (int, float))
            kinds[place] = ' class="n"' if number else kinds[place]
            cells.append(f'<td class="n">{shown(value)}</td>' if number else f"<td>{escape(str(value))}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    heads = "".join(
        f'<th scope="col"{kind}>{term(name, exact.get(name, ""))}</th>' for name, kind in zip(head, kinds, strict=True)
    )
    label = escape(caption, quote=True)
    content = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div class="scroll"><table aria-label="{label}">{content}</table></div>'


class Seconds(float):
    """Number in a table that stands there with its unit."""


def shown(value: object) -> str:
    """Return a number as people read it."""
    if isinstance(value, Seconds):
        return seconds(value, _DIGITS) if value else "0"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return f"{value:,}"


def numbers(content: str, title: str = "As a table") -> str:
    """Return the table of a chart: unfolded where no script draws the chart, and folds it."""
    return f'<details open class="numbers"><summary>{escape(title)}</summary>{content}</details>'


def folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{content}</details>"


def epochs_table(history: History) -> str:
    rows = history.rows if len(history.rows) <= 200 else history.rows[:: -(-len(history.rows) // 200)]
    names = history.columns()
    told = [["" if name not in row else int(row[name]) if name == "epoch" else row[name] for name in names] for row in rows]
    shown = [f"test {figure(name[4:])}" if name.startswith("val_") else figure(name) for name in names]
    return table(shown, told, "Loss and metrics by epoch")


def causes_list(data: Mapping[str, Any]) -> str:
    """Return the worst causes in words, with their seconds and their share of the run."""
    total = data["seconds"]
    if not total:
        return "<p>No worker has left a table of its batches.</p>"
    items = "".join(
        f"<li>{escape(cause['text'][:1].upper() + cause['text'][1:])}: <b>{seconds(cause['seconds'], _DIGITS)}</b>, "
        f"{100 * cause['seconds'] / total:.1f}\N{NO-BREAK SPACE}% of the training.</li>"
        for cause in data["causes"][:5]
    )
    work = {name: value for name, value in data["ordinary"].items() if name != WAIT}
    waited = data["ordinary"].get(WAIT, 0.0)
    told = [
        (word(name), seconds(value, _DIGITS), _EXACT.get(word(name), ""))
        for name, value in work.items()
        if value > total / 1000
    ]
    ordinary = ", ".join(f'<span class="whole">{term(name, exact)} {took}</span>' for name, took, exact in told)
    unknown = (
        f" Workers waited {seconds(waited, _DIGITS)} of it, and it is not known for whom." if waited > total / 1000 else ""
    )
    alike = f" ({ordinary})" if ordinary else ""
    own = f"Work that every worker had to do took {seconds(sum(work.values()), _DIGITS)} of it{alike}."
    said = f"<p>From the first batch to the end of the last one it took {seconds(total, _DIGITS)}. {own}{unknown}"
    return f'{said} It would have been shorter without:</p><ol class="causes">{items}</ol>' if items else f"{said}</p>"


def causes_table(data: Mapping[str, Any]) -> str:
    rows = [(cause["kind"], cause["text"], Seconds(cause["seconds"])) for cause in data["causes"][:100]]
    return table(["kind", "cause", "seconds"], rows, "What slowed the run down")


def phases_table(data: Mapping[str, Any]) -> str:
    phases = data["phases"]
    columns = list(phases["seconds"])
    rows = [
        [worker(node), *(Seconds(phases["seconds"][name][place]) for name in columns)]
        for place, node in enumerate(phases["workers"])
    ]
    return table(["", *map(word, columns)], rows, "Seconds of each worker by phase", _EXACT)


def cells_table(rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    """Return the cells of a picture, the largest first; a value that a cell has between its place and its number gets a column,
    too.
    """
    # the largest first, and no more than a page can show
    found = [(rows[x], columns[y], *rest) for y, x, *rest in sorted(cells, key=lambda cell: -cell[-1])[:200]]
    return table(head, found, " ".join(head))


def _slowest(runs: Runs, count: int) -> list[tuple[int, Batch]]:
    """Return the batches that took longest, each with its node."""
    every = [(node, row) for node, rows in runs.items() for row in rows]
    return sorted(every, key=lambda pair: -pair[1].total)[:count]


def slowest_table(runs: Runs) -> str:
    rows = [
        (
            worker(node),
            row.epoch,
            row.batch,
            Seconds(row.total),
            *(Seconds(getattr(row, name)) for name in ORDER),
            _peer(row.peer),
        )
        for node, row in _slowest(runs, 20)
    ]
    return table(["", "epoch", "batch", "in all", *map(word, ORDER), "waited for"], rows, "The slowest batches", _EXACT)


def _peer(peer: int | None) -> str:
    return "" if peer is None else worker(peer)


def ledger(records: RunRecords) -> str:
    """Count the copies of blocks that went into the weights, by their nodes."""
    columns = [records.ledger.get(name, []) for name in ("node", "attempt", "committed")]
    counts = Counter(zip(*columns, strict=False))
    if not counts:
        return "<p>There is no ledger: each worker trains a model of its own, or the run has not ended.</p>"
    # by attempt first, as time went
    whose = sorted({(node, attempt) for node, attempt, _ in counts}, key=lambda pair: (pair[1], pair[0]))
    rows = [
        (worker(int(node)), int(attempt), counts[node, attempt, 1.0], counts[node, attempt, 0.0]) for node, attempt in whose
    ]
    problems = records.outcome.get("problems") or ()
    said = "".join(f'<p class="story">{escape(problem)}</p>' for problem in problems)
    fine = "" if problems else "<p>Every block of every batch went into the weights exactly once.</p>"
    ledger = term("Which worker's blocks went into the weights", _LEDGER)
    head = ["worker", "attempt", "blocks in the weights", "not needed, or undone by a restart"]
    content = table(head, rows, "The ledger", {"attempt": "1, and one more after each restart"})
    return f'<p class="note">{ledger}: each batch is cut into blocks, of which each worker computes some.</p>' + (
        (fine if records.outcome.get("state") == "done" else "") + said + content
    )


def logs(records: RunRecords) -> str:
    return "".join(
        folded(f"{name}: its last lines", f'<pre class="log">{escape(chr(10).join(lines))}</pre>')
        for name, lines in records.logs.items()
    )


def pairs(content: Mapping[str, object], caption: str) -> str:
    return f'<div class="pairs">{table(["", ""], [(name, str(value)) for name, value in content.items()], caption)}</div>'


def picture(svg: str, text: str) -> str:
    """Return the picture as an image of its own, so that its styles stay with it, and the summary for readers that do not see
    it.
    """
    # as an image its styles cannot reach the page, nor the page's scripts it
    shown_as = base64.b64encode(svg.encode()).decode()
    drawn = f'<img class="model" alt="The layers of the model" src="data:image/svg+xml;base64,{shown_as}">' if svg else ""
    return drawn + (folded("Layers as a table", _layers(text), is_open=not svg) if text else "")


def _layers(text: str) -> str:
    """Return a summary of `nn.model.diagram.summarize` as a table whose cells wrap on a narrow screen, and the totals below it;
    another text as it stands.
    """
    parts = _RULE.split(text.strip())
    lines = [[_GAP.split(line) for line in part.splitlines()] for part in parts[1:3]]
    # a text of a stranger may be anything
    if len(parts) != 4 or len(lines[0]) != 1 or any(len(row) > len(lines[0][0]) for row in lines[1]):
        return f"<pre>{escape(text)}</pre>"
    name, ((head,), rows), totals = parts[0], lines, parts[3]
    cells = [[int(cell.replace(",", "")) if _COUNT.fullmatch(cell) else cell for cell in row] for row in rows]
    filled = ([*row, *[""] * (len(head) - len(row))] for row in cells)
    told = "".join(f'<p class="note">{escape(line)}</p>' for line in totals.splitlines())
    return f'<div class="layers">{table(head, filled, name)}</div>{told}'


_RULE: Final = re.compile(r"\n-{3,}\n")
_GAP: Final = re.compile(r" {2,}")
_COUNT: Final = re.compile(r"\d{1,3}(?:,\d{3}){0,6}")


def stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))

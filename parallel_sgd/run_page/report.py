"""`report.html`: one file with everything of a run, which needs no network and, for its tables, no script either."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from parallel_sgd.record.defaults import differing
from parallel_sgd.record.files import MANIFEST, PAGE
from parallel_sgd.record.history import BYTES, CLIENT_BYTES, COUNTS, lost_steps
from parallel_sgd.record.machine import WORKERS_IN_TURN
from parallel_sgd.record.numbers import seconds
from parallel_sgd.record.summary import crowd_sentence
from rpc.support.files import publish
from rpc.support.places import without_places

from . import tables
from .clients import clients_section
from .data import best_of, crowd_of, effort_in, page_data, platform_of
from .records import RunRecords
from .terms import PHASES, figure, term, worker
from .timeline import write_timeline

REPORT: Final = PAGE
_HERE: Final = Path(__file__).parent
_MODE: Final = 0o644
_MOST_ROWS: Final = 200
_FIGURE: Final = re.compile(r"[\d.]+ (?:%|ms|s|min|h)(?!\w)")
#: A figure and its unit, which stand in one line also on a phone.
_WHOLE: Final = r'<span class="whole">\g<0></span>'
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_UNDRAWN: Final = "<noscript><p>This browser runs no scripts: tables stand here in place of charts.</p></noscript>"
_SECTIONS: Final = (
    ("result", "Result"),
    ("curves", "Curves"),
    ("story", "What happened"),
    ("time", "Where the time went"),
    ("each", "Batches"),
    ("clients", "Clients"),
    ("bytes", "Bytes"),
    ("records", "Blocks and logs"),
    ("model", "Model"),
    ("environment", "Environment"),
)


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write `report.html` and the timeline into the folder of a run, from the files in it; return the path of the page.

    Args:
        folder: the folder, as `runs/latest`.

    Raises: OSError.
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, "No folder of a run", os.fspath(folder))
    return write_page(RunRecords.read(folder))


def write_page(records: RunRecords) -> Path:
    """Write the page and the timeline of `records` that were read already; return the path of the page. Raises: OSError."""
    page = without_places(render(records, page_data(records)), records.folder)
    # RUN-4: the manifest names the timeline, and a file that it names is written once
    if not (records.folder / MANIFEST).exists():
        write_timeline(records.batches, records.folder)
    path = records.folder / REPORT
    publish(path, page, _MODE)
    return path


def script(name: str) -> str:
    """Return a file of the page as it stands in it."""
    return (_HERE / name).read_text("utf-8")


def embedded(content: object) -> str:
    """Return JSON that ends no script."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, default=str)
    # in a script element only `</` and two separators could end it or break it
    return text.replace("<", "\\u003c").replace("\N{LINE SEPARATOR}", "\\u2028").replace("\N{PARAGRAPH SEPARATOR}", "\\u2029")


def render(records: RunRecords, data: Mapping[str, Any]) -> str:
    """Return the whole page."""
    title = records.run.title if records.run else records.folder.name
    title += " (simulated)" * bool(platform_of(records))
    contents = {
        "story": _story(records),
        "result": _result(records),
        "time": _time(records, data),
        "curves": _curves(records, data),
        "each": _batches(records, data),
        "clients": clients_section(data["clients"], chart),
        "bytes": _bytes(data),
        "records": tables.ledger(records) + tables.logs(records),
        "model": _model(records),
        "environment": _environment(records),
    }
    # of a run without a result the first thing to know is why
    order = _SECTIONS if records.outcome.get("figures") else sorted(_SECTIONS, key=lambda section: section[0] != "story")
    shown = [(name, text) for name, text in order if contents[name]]
    links = "".join(f'<a href="#{name}">{text}</a> ' for name, text in shown)
    sections = "".join(f'<section id="{name}"><h2>{text}</h2>{contents[name]}</section>' for name, text in shown)
    return document(title, f"{_head(records, data)}{_UNDRAWN}<nav>{links}</nav>", sections, embedded(data))


def document(title: str, head: str, main: str, data: str, policy: str = _POLICY, further: str = "") -> str:
    """Return a page with its styles, scripts and data."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)} - Parallel-SGD</title><style>{script("page.css")}</style></head>
<body><header>{head}</header><main>{main}</main>
<script type="application/json" id="data">{data}</script>
<script>{script("vendor/echarts.min.js")}</script>
<script>"use strict"; const WORDS = {embedded(dict(PHASES))};
{script("page.js")}{further}</script></body></html>
"""


def _head(records: RunRecords, data: Mapping[str, Any]) -> str:
    outcome, run = records.outcome, records.run
    state = str(outcome.get("state", "not ended"))
    title = run.title if run else records.folder.name
    began = f"began {tables.stamp(run.began / 1e9)}" if run else ""
    ended = outcome.get("ended")
    lasted = ""
    if run and isinstance(ended, float):
        # not the training alone, whose seconds stand beside those of one worker
        lasted = f", took {seconds(max(0.0, ended - run.began / 1e9))} with start and end"
    workers = _workers(records, data)
    told = f"Job {run.job if run else 'unknown'}, {began}{lasted}; {workers} worker{'s' * (workers != 1)}."
    restarts = len(outcome.get("incidents") or ())
    again = f" after {restarts} restart{'s' * (restarts != 1)}" if restarts else ""
    shown = {"left": "left running"}.get(state, state) + again
    head = f'<h1>{escape(title)} <span class="state {escape(state)}">{escape(shown)}</span></h1><p>{escape(told)}</p>'
    platform = platform_of(records)
    if not platform:
        return head
    times = outcome.get("simulated") or {}
    took = f": {times['seconds']:.6g} virtual seconds with start and end, {times['events']:,} events" if times else ""
    trace = f" SHA-256 of its trace: <code>{escape(str(times['digest']))}</code>." if times else ""
    beyond = "; ".join(times.get("outside") or ())
    marked = f"<p>Outside of what was calibrated: {escape(beyond)}.</p>" if beyond else ""
    return f"{head}<p><b>Simulated, not measured</b>, on {escape(platform)}{took}.{trace}</p>{marked}"


def _story(records: RunRecords) -> str:
    if records.went_well:
        return ""
    from .story import section  # noqa: PLC0415 - most runs end well

    return section(records)


def chart(
    name: str, caption: str, text: str, rows: str, drawn: str = "", title: str = "As a table", exact: str = "", used: str = ""
) -> str:
    """Return a chart, its meaning, how it is `drawn`, and its numbers; `exact` is a tooltip of its caption, `used` says how it
    is used on a screen, and is not printed.
    """
    label = escape(" ".join(filter(None, (f"{caption}.", text, drawn))), quote=True)
    told = escape(text) + (drawn and f' <span class="drawn">{escape(drawn)}</span>')
    told += used and f' <span class="drawn used">{escape(used)}</span>'
    return (
        f'<figure><h3>{term(caption, exact)}</h3><figcaption>{told}</figcaption><div class="chart" id="{name}" role="img" '
        f'aria-label="{label}"></div>{rows and tables.numbers(rows, title)}</figure>'
    )


def _workers(records: RunRecords, data: Mapping[str, Any]) -> int:
    """Return the number of workers; of many in one process only the first have a table of their batches."""
    return max(len(data["phases"]["workers"]), sum(node >= 0 and "TR" in own for node, own in records.tables.items()))


def _result(records: RunRecords) -> str:
    outcome = records.outcome
    figures = outcome.get("figures") or {}
    cards = [(tables.shown(float(value)), f"test {name}") for name, value in figures.items()]
    note = '<p class="note">On the test samples, after the last epoch; the mean over the workers.</p>' if cards else ""
    told = "" if cards else "<p>The run has no result: it did not come to the end of its last epoch.</p>"
    crowd = crowd_of(records)
    lines = [_crowded(records, *crowd)] if crowd else []
    if (best := best_of(records, records.history)) is not None:
        lines.append(f"Best: {best}.")
        cards.append((str(best.epoch), "best epoch"))
    effort = effort_in(records)
    if effort is not None:
        lines.append(f"The workers spent their time {effort.shares}.")
    if effort is not None and effort.workers > 1:
        again = " Restarts are not counted." * bool(outcome.get("incidents"))
        lines.append(f"{effort.told(bool(crowd))} Counted from the first batch to the last.{again}")
        if not crowd:
            cards.append(
                (f"\N{LESS-THAN OR EQUAL TO} {effort.speed_up:.2g} \N{MULTIPLICATION SIGN}", "the speed of one worker alone")
            )
    shown = "".join(f"<li><b>{escape(figure)}</b><span>{escape(name)}</span></li>" for figure, name in cards)
    said = "".join(f"<li>{_FIGURE.sub(_WHOLE, escape(line))}</li>" for line in lines)
    drawn = (f'<ul class="cards">{shown}</ul>' if shown else "") + note + (f'<ul class="told">{said}</ul>' if said else "")
    return told + drawn + _settings(records)


def _crowded(records: RunRecords, workers: int, cores: int) -> str:
    """Return the sentence on workers that take turns."""
    if WORKERS_IN_TURN in records.environment:
        return f"{workers} workers take turns in one process: more of them are not faster."
    return crowd_sentence(workers, cores)


def _settings(records: RunRecords) -> str:
    """Return the settings that differ from the defaults, and below them all settings."""
    found = ""
    differs = differing(records.settings)
    if differs:
        caption = "Settings that differ from the defaults"
        found = f"<h3>{caption}</h3>{tables.pairs(differs, caption)}"
    settings = records.outcome.get("settings") or {}
    return found + (tables.folded("All settings", tables.pairs(settings, "Settings")) if settings else "")


def _time(records: RunRecords, data: Mapping[str, Any]) -> str:
    waits = data["waits"]
    names, waiters = ([worker(node) for node in waits[part]] for part in ("nodes", "waiters"))
    cells = [(*place, tables.Seconds(waited)) for *place, waited in waits["cells"]]
    told = tables.causes_list(data)
    kept = data["phases"]["workers"]
    if not kept:
        return told
    if len(kept) < (of := _workers(records, data)):
        told += f'<p class="note">Of {of} workers these have left tables of batches and links: {", ".join(map(str, kept))}.</p>'
    causes = chart(
        "causes",
        "What slowed the run down",
        "Seconds by which the run would have been shorter without: what each worker, link and codec took beyond what the "
        "others needed in the same batch, where all others had to wait for it.",
        tables.causes_table(data),
        exact="Bottlenecks: the excess along the critical path, the chain of work that could not have begun sooner",
    )
    whom = chart(
        "waits",
        "Who waited for whom",
        "Seconds that a worker (row) waited for another one (column), from which the last packet of the batch came.",
        tables.cells_table(waiters, names, cells, ["who", "waited for", "seconds"]),
    )
    phases = chart(
        "phases",
        "What each worker did",
        "Seconds of its time. A worker that waits is not slow: it waits for one that is. The names of the colours, and the "
        "heads of the table, tell their exact meaning when you point at them.",
        tables.phases_table(data),
    )
    return f'{told}<div class="pair">{causes}{whom}</div>{phases}'


def _curves(records: RunRecords, data: Mapping[str, Any]) -> str:
    names = data["curves"]["names"]
    if not names:
        return "<p>No worker has left a table of its training.</p>"
    buttons = '<div class="buttons"><button data-per="epoch" aria-pressed="true">by epoch</button>'
    buttons += '<button data-per="step" aria-pressed="false">by batch</button></div>'
    text = "The mean over the workers in bold, each worker thin, on the test samples dashed."
    text += " Bytes are the contents of packets that were sent, those of all nodes together in bold" * (BYTES in names)
    text += ", each of several codecs thin." if len({codec for _, codec, *_ in data["traffic"]}) > 1 else "." * (BYTES in names)
    text += " A dotted red line: workers failed here, and all were started again." if data["restarts"] else ""
    lost = [f"epoch {epoch}: {lost_steps(number)}" for epoch, number in sorted(records.history.untold.items())]
    text += f" Training figures: {'; '.join(lost)}." if lost else ""
    text += " Bytes that the worker sent then are not counted, either." if lost and BYTES in names else ""
    text += " Bytes of its clients then are not counted." if lost and CLIENT_BYTES in names else ""
    figures = [curve(place, name) for place, name in enumerate(names)]
    rows = tables.numbers(tables.epochs_table(records.history))
    return f'<p class="note drawn">{text}</p>{buttons}<div class="pair drawn">{"".join(figures)}</div>{rows}'


def curve(place: int, name: str) -> str:
    """Return HTML of the chart of a figure; `place`: its number on the page."""
    title = escape(figure(name))
    return f'<figure><h3>{title}</h3><div class="chart" id="curve-{place}" role="img" aria-label="{title}"></div></figure>'


def _batches(records: RunRecords, data: Mapping[str, Any]) -> str:
    if not data["batches"]["rows"]:
        return ""
    marks = " A red band is a restart: from a failure until training went on." if data["batches"]["restarts"] else ""
    drawn = (
        "Time to the right, a row for each worker, a box for each batch. A thin red line leads from when a packet had "
        f"left its sender to when the wait for it ended.{marks}"
    )
    rows, used = tables.slowest_table(records.batches), "Scroll, pinch or drag the bar below to zoom."
    return chart("batches", "Time and workers", "", rows, drawn, "The slowest batches, as a table", used=used)


def _bytes(data: Mapping[str, Any]) -> str:
    links, variables = data["links"], data["variables"]
    if not links["cells"]:
        why = "the run did not end well" if data["traffic"] else "the run did not end well, or nothing was sent"
        told = f"<p>No worker has left its accounts, which tell the bytes by link and variable: {why}.</p>"
        return told + _traffic(data["traffic"])
    names = [worker(node) for node in links["nodes"]]
    senders = [worker(node) for node in variables["nodes"]]
    first = chart(
        "links",
        "By link",
        "Bytes on the wire, with what the protocol adds: sent by a node (row) to a node (column), by TCP, a Unix socket, or in "
        "memory that both share.",
        tables.cells_table(
            [worker(node) for node in links["senders"]], names, links["ways"], ["sender", "receiver", "by", "bytes"]
        ),
    )
    second = chart(
        "variables",
        "By variable and codec",
        "Bytes on the wire that each worker has sent for each variable of the model; the codec in brackets.",
        tables.cells_table(variables["names"], senders, variables["cells"], ["variable", "sender", "bytes"]),
    )
    return f'<div class="pair">{first}{second}</div>{_traffic(data["traffic"])}'


def _traffic(rows: Sequence[Sequence[Any]]) -> str:
    """Return the table of packets and bytes by node and codec, the nodes that have sent most first."""
    if not rows:
        return ""
    most = sorted(rows, key=lambda row: -row[3])[:_MOST_ROWS]
    left = f" The {_MOST_ROWS} of {len(rows)} with most bytes sent." if len(rows) > _MOST_ROWS else ""
    caption = "By node and codec"
    head = ["node", "codec", *(name.lower() for name in COUNTS.values())]
    shown = tables.table(head, [(worker(node), *others) for node, *others in most], caption)
    return (
        f'<h3>{caption}</h3><p class="note">Packets, bytes of their contents, and bytes on the wire, over all batches; '
        f"the tables BY have them by batch.{left}</p>{shown}"
    )


def _model(records: RunRecords) -> str:
    model = records.outcome.get("model") or {}
    return tables.picture(str(model.get("svg", "")), str(model.get("summary", "")))


def _environment(records: RunRecords) -> str:
    environment = records.environment
    made = f'<p class="note">This page was made {tables.stamp(time.time())} from the files beside it.</p>'
    return (tables.pairs(environment, "Environment") if environment else "") + made

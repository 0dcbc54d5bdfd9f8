"""`make pictures`: docs/pictures/ and the tables of docs/architecture.md, made from the code and from jobs that really run.

The way of a gradient is what one batch of a worker calls (`tests.house.job`); the ways of a submission and of a failure are
what a driver and an agent call and send (`tests.house.traced`). Every file and function of a picture is an element with the
class `place`, by which a test looks whether it still exists.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from rpc import messages
from tests.house.architecture import write_tables
from tests.house.graph import graph, modules
from tests.house.running import way
from tests.house.traced import Event
from tests.programs import python
from tests.sources import ROOT

FOLDER = ROOT / "docs" / "pictures"
LANES: Final = ("driver", "agent", "job process")
ROUTES: Final = {
    ("driver", "agent"): messages.FROM_SUBMITTER,
    ("agent", "driver"): messages.FROM_AGENT,
    ("agent", "job process"): messages.TO_JOB_PROCESS,
    ("job process", "agent"): messages.FROM_JOB_PROCESS,
    ("driver", "job process"): messages.CODE_TO_JOB,
    ("job process", "driver"): messages.CODE_FROM_JOB,
}
"""Sender and receiver: the operations that may go this way."""
SHOWN: Final = ("parallel_sgd", "rpc", "psgd")
"""Packages whose files are drawn; the network and `nn` are below each of them."""
EVERYWHERE: Final = 12
"""A file that more modules than this import (names, logs, files) is a tool of all ways, and not drawn."""
SEEN_SECONDS: Final = 0.01
"""What an agent takes from the end of a process to its verdict, at most; what it calls then is drawn."""
X: Final = {"driver": 190.0, "agent": 580.0, "job process": 930.0}
LINE, LETTER, WIDTH, SIDE = 16, 7, 1060, 170
STYLE = (
    "text{font:12px sans-serif;fill:#222}.place{font:11px monospace}.op{font-weight:bold}.head{font:bold 14px sans-serif}"
    ".by{fill:#777}line,path{stroke:#36c;fill:none}.life{stroke:#bbb}.box{fill:#f2f5fb;stroke:#b8c4de}"
)


class Message(NamedTuple):
    """An operation on its way, and the function that sends it."""

    time: float
    operation: str
    sender: str
    receiver: str
    by: tuple[str, str] | None


class Stay(NamedTuple):
    """Functions that a process calls, each in a file that it enters for the first time."""

    time: float
    lane: str
    places: list[tuple[str, str]]


def traced(*options: str) -> dict[str, list[Event]]:
    """Run the job of `tests.house.traced`; return the events of the driver and of both agents."""
    with tempfile.TemporaryDirectory() as folder:
        finished = python(Path(folder), "-m", "tests.house.traced", folder, *options)
        if finished.returncode:
            raise RuntimeError(f"The job failed:\n{finished.stderr[-3000:]}")
        names = ("driver", "agent-0", "agent-1")
        return {name: [Event(*each) for each in json.loads(Path(folder, f"{name}.json").read_text())] for name in names}


def sent(events: dict[str, list[Event]]) -> list[Message]:
    """Return the first operation of each kind between the driver, the agent and its job process, in order of time.

    The sender's note of it counts, for the driver has other agents, too; of the job process, which writes nothing down, the
    receiver's.
    """
    routes = {kind.__name__: route for route, kinds in ROUTES.items() for kind in kinds}
    found: dict[str, Message] = {}
    for lane, some in events.items():
        for each in some:
            operation = each.sent or each.received
            sender, receiver = routes.get(operation, ("", ""))
            if operation not in found and (lane == sender if each.sent else lane == receiver and sender not in events):
                by = (each.place, each.name) if each.sent else None
                found[operation] = Message(each.time, operation, sender, receiver, by)
    return sorted(found.values())


def is_shown(event: Event) -> bool:
    """Tell whether a call is drawn: of a named function in a file of a package of `SHOWN` that is no tool of all."""
    if event.place.partition("/")[0] not in SHOWN or event.place.endswith("__init__.py") or event.place in tools():
        return False
    return "<" not in event.name and not (event.sent or event.received)


@functools.cache
def tools() -> set[str]:
    """Return the files that more than `EVERYWHERE` modules import."""
    counts = Counter(other for others in graph(False).values() for other in others)
    return {modules()[name].relative_to(ROOT).as_posix() for name, count in counts.items() if count > EVERYWHERE}


def stays(lane: str, events: Iterable[Event], times: Sequence[float], known: set[tuple[str, str]]) -> Iterator[Stay]:
    """Yield what a process calls between two messages: the first function of each file that it has not entered before.

    Args:
        lane: The process.
        events: What it calls.
        times: When the messages leave, in order.
        known: Files and functions that were called before the picture begins, and are not drawn.
    """
    entered: set[str] = set()
    gaps: dict[int, Stay] = {}
    for event in events:
        if is_shown(event) and event.place not in entered and (event.place, event.name) not in known:
            entered.add(event.place)
            gap = sum(time <= event.time for time in times)
            gaps.setdefault(gap, Stay(event.time, lane, [])).places.append((event.place, event.name))
    yield from gaps.values()


def submission() -> str:
    """Draw what a driver and an agent do from the call of `parallel()` to the end of the job."""
    events = traced()
    lanes = {"driver": events["driver"], "agent": events["agent-0"]}
    rows = sent(lanes)
    times = [row.time for row in rows]
    for lane, some in lanes.items():
        begin = times[0] if lane == "agent" else 0.0  # before, it serves nobody
        known = {(each.place, each.name) for each in some if each.time < begin}
        rows += stays(lane, (each for each in some if begin <= each.time <= times[-1]), times, known)
    return sequence(rows, "from the call of parallel() until the job is over")


def failure() -> str:
    """Draw what a driver and an agent do from the death of a worker until the job runs again."""
    events = traced("fail")
    lanes = {"driver": events["driver"], "agent": events["agent-1"]}
    verdict = next(each.time for each in lanes["agent"] if each.sent == "Verdict")
    death = verdict - SEEN_SECONDS
    after = {lane: [each for each in some if each.time >= death] for lane, some in lanes.items()}
    end = next(each.time for each in after["driver"] if each.received == "Accepted")
    after = {lane: [each for each in some if each.time <= end] for lane, some in after.items()}
    rows = [row for row in sent(after) if row.time >= verdict]
    times = [row.time for row in rows]
    for lane, some in after.items():
        known = {(each.place, each.name) for each in lanes[lane] if each.time < death}
        rows += stays(lane, some, times, known)
    return sequence(rows, "worker 1 is killed under on_failure='restart'; it goes on as after Accepted in a submission")


def sequence(rows: list[Message | Stay], title: str) -> str:
    """Draw messages as arrows between the lanes of processes, and stays as boxes on these."""
    y, drawn = 70, list[str]()
    for row in sorted(rows, key=lambda row: row.time):
        if isinstance(row, Message):
            y += 30
            begin, end = X[row.sender], X[row.receiver]
            tip = -6 if end > begin else 6
            drawn.append(f'<line x1="{begin}" y1="{y}" x2="{end}" y2="{y}"/>')
            drawn.append(f'<path d="M{end + tip} {y - 4}L{end} {y}l{tip} 4"/>')
            middle, name = (begin + end) / 2, row.operation
            where = f'x="{middle}" y="{y - 5}" text-anchor="middle"'
            drawn.append(f'<text class="op" data-operation="{name}" {where}>{name}</text>')
            if row.by is not None:
                drawn.append(place(*row.by, middle, y + 13, 'text-anchor="middle"', "by"))
                y += 14
        else:
            x, height = X[row.lane] - SIDE, LINE * len(row.places) + 8
            width = max(2 * SIDE, round(16 + LETTER * max(len(file) + len(name) for file, name in row.places)))
            y += 12
            drawn.append(f'<rect class="box" rx="4" x="{x}" y="{y}" width="{width}" height="{height}"/>')
            drawn += [place(*each, x + 8, y + LINE * number) for number, each in enumerate(row.places, 1)]
            y += height
    height = y + 30
    lives = "".join(f'<line class="life" x1="{x}" y1="54" x2="{x}" y2="{height - 10}"/>' for x in X.values())
    heads = "".join(f'<text class="head" x="{x}" y="46" text-anchor="middle">{lane}</text>' for lane, x in X.items())
    return svg(WIDTH, height, title, lives + heads + "\n".join(drawn))


def gradient() -> str:
    """Draw the files that the gradients of one batch pass: down on the way out, and down again on the way back."""
    drawn: list[str] = []
    bottom = 0
    for number, head in enumerate(("out: from backward to the socket", "back: from the socket to the rule")):
        steps = dict.fromkeys((file, name) for file, name, out in way().steps if out == (number == 0) and "<" not in name)
        x, y = 20 + 520 * number, 64
        drawn.append(f'<text class="head" x="{x}" y="46">{head}</text>')
        for step, each in enumerate(steps):
            drawn.append(f'<rect class="box" rx="4" x="{x}" y="{y}" width="500" height="22"/>' + place(*each, x + 8, y + 15))
            if step:
                drawn.append(f'<line x1="{x + 20}" y1="{y - 8}" x2="{x + 20}" y2="{y}"/>')
            y += 30
        bottom = max(bottom, y)
    return svg(WIDTH, bottom + 10, "one batch of a worker with one peer, four variables, Plain", "\n".join(drawn))


def place(file: str, name: str, x: float, y: float, more: str = "", kind: str = "") -> str:
    """Return a file and a function of it as an element that a test finds."""
    text = f"{file.removesuffix('.py')}: {name}"
    given = f'class="{f"place {kind}".strip()}" data-file="{file}" data-name="{escape(name)}"'
    return f'<text {given} x="{x:g}" y="{y:g}" {more}'.rstrip() + f">{escape(text)}</text>"


def svg(width: float, height: float, title: str, content: str) -> str:
    """Return a picture of this size, with a white ground, a style and a title."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    ground = f'<style>{STYLE}</style><rect width="{width}" height="{height}" fill="#fff"/>'
    return f'{head}{ground}<text class="by" x="20" y="20">{escape(title)}</text>\n{content}\n</svg>\n'


PICTURES: Final = {"gradient": gradient, "submission": submission, "failure": failure}


def main(wanted: list[str]) -> int:
    """Draw the pictures of these names, all of them without any, and write the tables."""
    FOLDER.mkdir(exist_ok=True)
    write_tables()
    for name in wanted or PICTURES:
        (FOLDER / f"{name}.svg").write_text(PICTURES[name](), "utf-8")
        print(f"Drawn: docs/pictures/{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Timeline of the batches of a run as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from parallel_sgd.record.files import TIMELINE
from rpc.support.files import publish

from .records import Runs
from .terms import ORDER, worker

_MODE: Final = 0o644
_WITHIN: Final = 2  # tenths of a microsecond before its end an arrow enters the wait that it ends, not the next phase


def trace(runs: Runs) -> str:
    """Return a thread of phases for each worker, and an arrow from the node that was waited for to the one that waited.

    Args:
        runs: the batches of each worker.
    """
    events = ",\n".join(_events(runs))
    return f'{{"displayTimeUnit":"ms","traceEvents":[\n{events}\n]}}\n'


def _events(runs: Runs) -> Iterator[str]:
    """Yield each event as JSON, made by hand: there are many; times in microseconds."""
    zero = min((rows[0].begin for rows in runs.values() if rows), default=0.0)
    sent = {(node, row.epoch, row.batch): row.begin + row.sent for node, rows in runs.items() for row in rows}
    numbers = count(1)  # Perfetto leaves out arrows with an id that is no number
    for node, rows in sorted(runs.items()):
        yield json.dumps({"ph": "M", "name": "process_name", "pid": node, "args": {"name": worker(node)}})
        yield json.dumps({"ph": "M", "name": "thread_name", "pid": node, "tid": node, "args": {"name": "batches"}})
        own = f'"pid":{node},"tid":{node}'
        edge = 0
        for row in rows:
            peer = "" if row.peer is None else f',"waited for":{row.peer}'
            where = f'"args":{{"epoch":{row.epoch},"batch":{row.batch}{peer}}}'
            now = (row.begin - zero) * 1e6
            got = edge
            for name, seconds in zip(ORDER, row.phases, strict=True):
                if seconds:
                    now += seconds * 1e6
                    # Perfetto leaves out a slice that begins before the one before it ends, also by a rounded digit
                    start = max(edge, round(10 * (now - seconds * 1e6)))
                    edge = max(start, round(10 * now))
                    yield f'{{"ph":"X","name":"{name}",{own},"ts":{start / 10:.1f},"dur":{(edge - start) / 10:.1f},{where}}}'
                    if name == "wait":
                        got = max(start, edge - _WITHIN)
            left = None if row.peer is None else sent.get((row.peer, row.epoch, row.batch))
            if left is not None and row.wait:
                arrow = f'"name":"packet","cat":"packet","id":{next(numbers)}'
                yield f'{{"ph":"s",{arrow},"pid":{row.peer},"tid":{row.peer},"ts":{(left - zero) * 1e6:.1f}}}'
                yield f'{{"ph":"f","bp":"e",{arrow},{own},"ts":{got / 10:.1f}}}'


def write_timeline(runs: Runs, folder: Path) -> Path:
    """Write the timeline into the folder of a run. Raises: OSError."""
    path = folder / TIMELINE
    # mtime=0: the same batches give the same bytes, which the manifest hashes
    publish(path, gzip.compress(trace(runs).encode(), 1, mtime=0), _MODE)
    return path

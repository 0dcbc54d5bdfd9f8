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
_WITHIN: Final = 0.2  # microseconds before its end an arrow enters the wait that it ends, else it would enter the next phase


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
        for row in rows:
            peer = "" if row.peer is None else f',"waited for":{row.peer}'
            where = f'"args":{{"epoch":{row.epoch},"batch":{row.batch}{peer}}}'
            now = got = (row.begin - zero) * 1e6
            for name, seconds in zip(ORDER, row.phases, strict=True):
                if seconds:
                    took = seconds * 1e6
                    yield f'{{"ph":"X","name":"{name}",{own},"ts":{now:.1f},"dur":{took:.1f},{where}}}'
                    now += took
                if name == "wait":
                    got = now - _WITHIN
            left = None if row.peer is None else sent.get((row.peer, row.epoch, row.batch))
            if left is not None and row.wait:
                arrow = f'"name":"packet","cat":"packet","id":{next(numbers)}'
                yield f'{{"ph":"s",{arrow},"pid":{row.peer},"tid":{row.peer},"ts":{(left - zero) * 1e6:.1f}}}'
                yield f'{{"ph":"f","bp":"e",{arrow},{own},"ts":{got:.1f}}}'


def write_timeline(runs: Runs, folder: Path) -> Path:
    """Write the timeline into the folder of a run. Raises: OSError."""
    path = folder / TIMELINE
    # mtime=0: the same batches give the same bytes, which the manifest hashes
    publish(path, gzip.compress(trace(runs).encode(), 1, mtime=0), _MODE)
    return path

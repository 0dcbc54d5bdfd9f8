"""What an agent sends to whoever looks for the cause of a failure: all that it knows of one job on one node.

record.json     state, times, attempts
events.jsonl    what happened, verdicts and the last signals included (see `timeline`)
kept.json       the checkpoints and other files that the job keeps here, and whether they are whole (see `sealed`)
configuration.json, logs, tables    what the job process has said of itself, the logs of both, and the registered reports
                unless they are large
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..configuration import CONFIGURATION
from ..messages import FileBegin, FileChunk, FileEnd, Operation
from .jobs import JobRecord
from .retrieval import CHUNK, Source, log_sources, send_sources
from .sealed import kept_files
from .timeline import TIMELINE

RECORD_COPY: Final = "record.json"
KEPT: Final = "kept.json"
_OUT: Final = "out"
_MOST_REPORT: Final = 8 << 20  # bytes; trained models tell nothing about a failure


def send_evidence(record: JobRecord, folder: Path, logs: Sequence[Path]) -> Iterator[Operation | None]:
    """The files above, at any time; None where the next step comes later, so that others are served first."""
    kept = yield from kept_files(folder, _OUT)
    yield from _text(RECORD_COPY, asdict(record))
    yield from _text(KEPT, [asdict(file) for file in kept])
    sources = log_sources(record, folder, logs)
    sources += [Source(folder.parent, (folder.name, name)) for name in (TIMELINE, CONFIGURATION)]
    if record.ended:
        sources += [
            Source(folder.parent, (folder.name, _OUT, name)) for name in record.files if _is_small(folder / _OUT / name)
        ]
    yield from send_sources(record, sources)


def _text(name: str, content: Any) -> Iterator[Operation]:
    data = json.dumps(content, indent=1).encode()
    yield FileBegin(name, len(data))
    for start in range(0, len(data), CHUNK):
        yield FileChunk(data[start : start + CHUNK])
    yield FileEnd(hashlib.sha256(data).hexdigest())


def _is_small(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_size <= _MOST_REPORT
    return True  # so that it is named as one that cannot be read

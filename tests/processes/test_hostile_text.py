"""What a job says cannot act on the terminal of its submitter, whatever that has done about logging."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc import Reclaimer

from ..statements import covers
from .harness import Cluster, start_job
from .host_executors import Forges

FORGED = "forged: all is well"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What an application sees that has called logging.basicConfig()."""
    shown, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.INFO)
    yield shown


@covers("SEC-17")
def test_a_failure_with_escape_codes(own: Cluster, tmp_path: Path, shown: io.StringIO) -> None:
    """The traceback of a job, told at its end and to somebody who watches: nothing but printable characters, and no
    line begins with what it says."""
    own.start(2)
    with own.request() as com:
        coordinator = start_job(com, Forges, tmp_path, objects={"text": f"\x1b]0;x\x07\r\nINFO {FORGED}\n\u202e\x9b31m"})
        assert coordinator.join()[1]
        job = coordinator.job
    with own.request() as com:
        Reclaimer(com).follow(job)
    lines = shown.getvalue().splitlines()
    assert any(FORGED in line for line in lines)
    assert [line for line in lines if not line.replace("\t", "").isprintable()] == []
    assert [line for line in lines if FORGED in line and not line.startswith(("\t", "ERROR:P-SGD", "WARNING:P-SGD"))] == []
    assert [line for line in lines if not line.startswith(("\t", "INFO:", "WARNING:", "ERROR:"))] == []

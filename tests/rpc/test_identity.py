"""Names of jobs, processes and hosts."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from rpc.identity import host_name, is_job_id, new_job_id, process_name

from ..statements import covers
from .travel import ROOT


def test_new_ids_are_ids_and_differ() -> None:
    ids = {new_job_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_job_id(job) and re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", job) for job in ids)


@pytest.mark.parametrize("text", ["a", "A1", "20261120-173000-9f86d081", "a.b_c-d", "x" * 48])
def test_ids(text: str) -> None:
    assert is_job_id(text)


@covers("SEC-10")
@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a..b", ".a", "-a", "_a", "a/b", "a\\b", "a b", "a\n", "a\0", "ä", "x" * 49, "../x", "a:b", "~", "*"],
)
def test_what_may_not_name_a_folder(text: str) -> None:
    """An agent makes folders of job ids."""
    assert not is_job_id(text)


def test_process_names_are_unique() -> None:
    """No two pairs of job and node share a name."""
    pairs = [(job, node) for job in ("a", "a.0", "a.1", "a.ps2", "a.ps2.0", "a-1") for node in (-2, 0, 1, 10)]
    assert len({process_name(*pair) for pair in pairs}) == len(pairs)
    assert process_name("job", 3) == "job.3"
    assert process_name("job", -2) == "job.ps2"


def test_processes_of_one_host_share_its_name() -> None:
    script = "from rpc.identity import host_name; print(host_name())"
    other = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert other.stdout.strip() == host_name()
    assert re.fullmatch("[0-9a-f]{32}", host_name())

"""What `launch` refuses, jobs that end before a worker has started, and a program by itself."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network import NodeAssignment
from network.key_files import create_key_file
from parallel_sgd import JobFailed, elastic, in_process

from ...statements import covers


def test_a_group_of_one() -> None:
    """Each operation gives what it would with several workers that hold the same, and refuses what they would."""
    assert (elastic.rank(), elastic.size()) == (0, 1)
    mine = np.arange(3)
    mean = elastic.allreduce(mine)
    assert mean.tolist() == [0.0, 1.0, 2.0] and mean.dtype == np.float64
    total = elastic.allreduce(mine, "sum")
    assert total.dtype == mine.dtype and not np.may_share_memory(total, mine)
    assert elastic.broadcast({"a": 1}) == {"a": 1}
    elastic.barrier()
    with pytest.raises(ValueError, match="allreduce 'op' must be one of mean, sum, max, min, got 'prod'"):
        elastic.allreduce([1], "prod")
    with pytest.raises(ValueError, match="broadcast 'root' must be a rank from 0 to 0, got 1"):
        elastic.broadcast(None, 1)


NODES = NodeAssignment().add(0, "127.0.0.1:9").add(1, "127.0.0.1:9")
HELD = threading.Lock()


def uses_a_lock() -> bool:
    return HELD.locked()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"func": 5}, TypeError, "'func' must be a function, got int"),
        ({"nodes": [1]}, TypeError, r"'nodes' must be workers on agents .*, got \[1\]"),
        ({"nodes": NodeAssignment()}, TypeError, "'nodes' must be workers on agents"),
        ({"min_workers": 3}, ValueError, "1 <= min_workers <= workers <= max_workers, got 3 <= 2 <= None"),
        ({"min_workers": 1.5}, TypeError, "'min_workers' must be a positive integer, got 1.5"),
        ({"max_workers": 2.5}, TypeError, "'max_workers' must be a positive integer, got 2.5"),
        ({"cool_down": 5}, TypeError, r"'cool_down' must be \(low, high\) seconds, got 5"),
        ({"max_workers": 1}, ValueError, "1 <= min_workers <= workers <= max_workers, got 1 <= 2 <= 1"),
        ({"discovery": 5}, TypeError, "'discovery' must be the path of a script"),
        ({"cool_down": (2.0, 1.0)}, ValueError, "CoolDown needs 0 < low <= high"),
        ({"reset_limit": -1}, ValueError, "'reset_limit' must be an integer of 0 or more"),
        ({"timeout": 0}, ValueError, "'timeout' must be a number > 0, got 0"),
        ({"stall_timeout": 0}, ValueError, "'stall_timeout' must be a number > 0, got 0"),
        ({"warn_after": 2.0, "stop_after": 1.0}, ValueError, "'stop_after' must be 0 or at least 2, 'warn_after', got 1"),
        ({"discovery_every": 0}, ValueError, "'discovery_every' must be a number > 0"),
        ({"blas_threads": 0}, ValueError, "'blas_threads' must be a positive integer, got 0"),
        ({"func": uses_a_lock}, TypeError, "The code of this job cannot travel"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_launch_refuses(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """Style 4: before anybody is called, and nothing is left open."""
    with pytest.raises(kind, match=message):
        elastic.launch(**{"func": int, "nodes": NODES, **options})


def test_nodes_in_process_cannot_come_and_go() -> None:
    with in_process(2) as nodes, pytest.raises(TypeError, match="'nodes' must be workers on agents"):
        elastic.launch(int, nodes)


def broken() -> str:
    raise LookupError("no such rack")


FIRST = r"All workers have failed\.\nThe first worker to fail was:\nProcess name: 127.*\n.*Connection refused"


@covers("EL-16", "EL-17", "EL-20", "EL-21")
@pytest.mark.parametrize(
    ("options", "message", "failures"),
    [
        # the first round waits for its slots, up to the time-out; a failure of the first look ends the job
        ({"discovery": list, "timeout": 0.1}, r"Timed out waiting for minimum number of slots .* has 0 of the 2 slots", 0),
        ({"discovery": broken}, r"The first discovery of hosts failed: .*LookupError: no such rack", 0),
        ({}, FIRST, 2),  # who and why; hosts that failed are not tried again
    ],
)
def test_jobs_that_end_before_a_worker_has_started(
    options: dict[str, Any], message: str, failures: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_key_file(tmp_path / "key")
    nodes = NodeAssignment(key_file=tmp_path / "key")
    for node in range(2):  # where nobody listens
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nodes.add(node, f"127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(JobFailed, match=message) as failed:
        elastic.launch(int, nodes, **options)
    assert len(failed.value.failures) == failures
    assert sum("cannot be started" in record.getMessage() for record in caplog.records) == failures

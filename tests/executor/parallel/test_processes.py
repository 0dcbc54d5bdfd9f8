"""Lazy collections where functions and data travel: a pool of processes, which would pickle them, and agents."""

from __future__ import annotations

import os
import resource
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from executor import ClusterExecutor
from executor.parallel import Context
from network import NodeAssignment

from .elsewhere import check_a_lost_worker, check_collections

pytestmark = pytest.mark.processes


def test_on_processes_of_a_pool(on_processes: Context, tmp_path: Path) -> None:
    """Lambdas, closures and the user's classes travel to a pool that would pickle what it is given."""
    check_collections(on_processes._executor, tmp_path / "lines.txt")


def test_on_agents(agents: NodeAssignment, tmp_path: Path) -> None:
    """And a worker that is lost costs no result."""
    with Context(agents) as context:
        check_collections(context._executor, tmp_path / "lines.txt")
        pids = set(context.parallelize(range(8), 8).map_partitions(lambda _: [os.getpid()]).collect())
        assert os.getpid() not in pids
    with ClusterExecutor(agents) as executor:
        check_a_lost_worker(Context(executor), tmp_path / "died")


def test_broadcast_files_are_removed(on_processes: Context) -> None:
    """Closing removes the files, and so does unpersist; one that somebody has removed already is no error."""
    first, _second = on_processes.broadcast(1), on_processes.broadcast(2)
    assert [Path(file).exists() for file in on_processes._files] == [True, True]
    left = on_processes._files[1]
    first.unpersist()
    on_processes.close()
    assert on_processes._files == []
    assert not Path(left).exists()
    on_processes.broadcast(1)
    Path(on_processes._files[0]).unlink()
    on_processes.close()
    assert on_processes._files == []


def test_a_full_disk_is_an_error_and_leaves_nothing(
    on_processes: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broadcast value that does not fit raises OSError, one that is no data TypeError; no file is left of either."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            on_processes.broadcast(np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(TypeError, match="cannot travel"):
        on_processes.broadcast(object())
    assert on_processes._files == []
    assert list(tmp_path.iterdir()) == []


def test_threads_share_a_broadcast_value() -> None:
    """On threads the value is the object itself."""
    value = {1, 2}
    with ThreadPoolExecutor(1) as pool:
        held = Context(pool).broadcast(value)
        assert Context(pool).parallelize([0]).map(lambda _: held.value is value).collect() == [True]

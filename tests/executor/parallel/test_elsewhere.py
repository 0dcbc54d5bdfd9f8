"""Lazy collections on executors that others have made: the processes of MPI, and the workers of a Dask cluster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from executor.parallel import Context
from tests.dask_cluster import dask
from tests.sources import ROOT

from . import elsewhere
from .elsewhere import check_a_lost_worker, check_collections, check_futures

pytestmark = pytest.mark.processes


@pytest.mark.long
def test_on_dask(tmp_path: Path) -> None:
    """The executor of a client: operations, errors, broadcast values, futures. The tasks of a worker that dies run elsewhere,
    and a broadcast value that only it had comes again."""
    with dask(tmp_path / "dask", 2) as (_, client), client.get_executor() as executor, Context(executor) as context:
        check_futures(executor)
        check_collections(executor, tmp_path / "lines.txt")
        assert context.parallelize(range(9)).partitions == 4  # two for each worker

        large = context.broadcast(np.arange(2_000_000.0))
        last = context.parallelize([0], 1).map(lambda _: (os.getpid(), float(large.value[-1])))
        [(pid, value)] = last.collect()
        assert value == 1_999_999.0
        os.kill(pid, signal.SIGKILL)
        assert last.map(lambda pair: pair[1]).collect() == [1_999_999.0]
        check_a_lost_worker(context, tmp_path / "died")
        with pytest.raises(TypeError, match="cannot travel"):
            context.broadcast(object())


def test_on_mpi(tmp_path: Path) -> None:
    """`MPIPoolExecutor` on three processes that mpiexec has started."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if mpiexec is None:
        pytest.skip("there is no mpiexec here")
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(elsewhere.__file__)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert (finished.returncode, finished.stdout) == (0, "right\n"), finished.stderr

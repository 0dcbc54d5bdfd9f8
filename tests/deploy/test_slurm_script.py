"""deploy/slurm.sh from the first try to the last, with a stand-in for Slurm: it starts the tasks and passes signals on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import parallel_sgd
from network.key_files import create_key_file
from nn.model import Model
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.agent.children import project_root
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import digits_job, only_weights

pytestmark = pytest.mark.processes
ROOT = Path(project_root())
SRUN = """
import os, signal, subprocess, sys
tasks = [
    subprocess.Popen(sys.argv[1:], env={**os.environ, "SLURM_PROCID": str(rank), "SLURM_STEP_ID": "0"})
    for rank in range(int(os.environ["SLURM_NTASKS"]))
]
signal.signal(signal.SIGUSR1, lambda *_: [task.send_signal(signal.SIGUSR1) for task in tasks])
sys.exit(max(task.wait() for task in tasks))
"""
CODEC = """
import os, pathlib, signal, time
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain

class TimeIsUp(Plain):
    "In the first try Slurm's signal comes to both tasks in the second epoch, which is slow then: they can leave in time."
    def __init__(self, node_id):
        super().__init__(node_id)
        self._blocks, self._signalled = 0, False

    def update_blocks(self, block_weight):
        self._blocks += 1
        mark = pathlib.Path(GlobalSettings.get_params("marks"), f"sent-{self.node_id}")
        if self._blocks == 60 and not mark.exists():
            mark.touch()
            while len(list(mark.parent.glob("sent-*"))) < 2:  # who comes first would leave alone
                time.sleep(0.01)
            os.kill(os.getppid(), signal.SIGUSR1)
            self._signalled = True
        if self._signalled:
            time.sleep(0.2)
        return super().update_blocks(block_weight)
"""


def program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o700)


@pytest.mark.long
def test_a_job_that_is_requeued_ends_with_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    """The workers save their state and leave when the time is up; the script puts itself into the queue again, and the next
    try goes on where the first one was."""
    bin_, work = tmp_path / "bin", tmp_path / "work"
    bin_.mkdir()
    work.mkdir()
    (tmp_path / "srun.py").write_text(SRUN)
    program(bin_ / "srun", "#!/bin/sh", f'exec {sys.executable} {tmp_path}/srun.py "$@"')
    program(bin_ / "scontrol", "#!/bin/sh", f'echo "$@" >>{tmp_path}/scontrol')
    program(bin_ / "psgd-worker", "#!/bin/sh", f'exec {sys.executable} {ROOT}/worker.py "$@" --log-level=WARNING')
    program(bin_ / "psgd-submit", "#!/bin/sh", f'exec {sys.executable} {ROOT}/job_submit.py "$@"')
    (work / "time_is_up.py").write_text(CODEC)
    mlp().save(work / "m.model")
    create_key_file(tmp_path / "cluster.key")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PSGD_", "SLURM_"))}
    environ = {
        **kept,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "SLURM_JOB_ID": "31",
        "SLURM_NTASKS": "2",
        "SLURMD_NODENAME": "127.0.0.1",
    }
    arguments = ["-m", "m.model", "--dataset=digits", "--epochs=2", "--batch-size=16", "--block-assignment=fixed:4"]
    codec = ["--codec=time_is_up.py:TimeIsUp", f"--codec-params=marks={tmp_path}"]
    command = ["bash", str(ROOT / "deploy" / "slurm.sh"), *arguments, *codec]

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=work, env={**environ, **variables}, capture_output=True, text=True, timeout=90)

    first = run()
    assert first.returncode == 0 and " left: " in first.stdout, first.stderr  # scontrol's code, in place of the script
    assert '"1": ["runs/P-SGD-1/Node-1-Retrieve/' in first.stdout  # who leaves waits until its files are fetched
    assert (tmp_path / "scontrol").read_text() == "requeue 31\n"
    second = run(SLURM_RESTART_COUNT="1")
    assert second.returncode == 0 and '"accuracy"' in second.stdout, second.stderr
    assert (tmp_path / "scontrol").read_text() == "requeue 31\n"
    assert list((tmp_path / ".local/state/psgd/rendezvous").rglob("*.agent.json")) == []
    (model,) = (work / "Node-0-Retrieve").glob("*.model")
    settings = {"epoch": 2, "block_size": 16, "assignment_type": FixedBlockAssignment.of(blocks=4)}
    with parallel_sgd.in_process(1) as nodes:
        calm = digits_job().parallel(nodes, directory=tmp_path / "calm", **settings)
    assert Model.load(model).store.values.tobytes() == only_weights(calm)

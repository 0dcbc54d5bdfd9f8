"""Jobs on local workers leave what it takes to go on: after their block, after Ctrl-C, after a submitter that was killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from network.errors import ClosedByUs, NetworkError
from nn.gradient_descent import SGDOptimizer
from nn.model import Model
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import JobResult, codec
from parallel_sgd.checkpoint.snapshot import VALUE
from parallel_sgd.checkpoint.store import Store
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.submit.run_folder import runs_in
from tests.proc import is_gone
from tests.processes.harness import processes_below, wait_for
from tests.programs import python

from ...statements import covers
from .jobs import digits_job, rows, weights

SETTINGS: dict[str, Any] = {"block_size": 64, "seed": 11, "gd_type": SGDOptimizer, "gd_params": (0.05,)}
SETTINGS["codec"] = codec.TopK  # each worker has a state of its own
ROOT = Path(parallel_sgd.__file__).parents[1]


def train(directory: Path, **settings: Any) -> JobResult:
    with parallel_sgd.local_workers(2) as nodes:
        return digits_job().parallel(nodes, directory=directory, **{**SETTINGS, **settings})


def here(directory: Path, **settings: Any) -> JobResult:
    """The same job within this process, which has the same bits."""
    with parallel_sgd.in_process(2) as nodes:
        return digits_job().parallel(nodes, directory=directory, **{**SETTINGS, **settings})


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def start(directory: Path, text: str) -> subprocess.Popen[str]:
    """A program of its own, with the temporary directory below `directory`."""
    (directory / "tmp").mkdir(exist_ok=True)
    lines = f"from pathlib import Path\nfrom tests.processes.training.test_local_jobs import train\n{text}"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(directory / "tmp")}
    return subprocess.Popen([sys.executable, "-c", lines], cwd=directory, env=environ, stderr=subprocess.PIPE, text=True)


def third_epoch(agent: Path) -> bool:
    """Whether its worker has kept the state after three epochs, or after more of them: the older ones go."""
    return any(int(path.name.split("-")[1]) >= 3 for path in agent.glob("*/checkpoints/checkpoint-*-*"))


@covers("SUB-44")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.long
def test_an_interrupted_job_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    """`resume="last"` in the same directory ends with the bits and the tables of the uninterrupted run; the model of
    the newest checkpoint is there, and the first run stays as it was."""
    process = start(tmp_path, "train(Path(), epoch=10_000)")
    run = tmp_path / "runs" / "P-SGD-1"
    wait_for(lambda: all(third_epoch(run / f"agent-{node}") for node in (0, 1)), "checkpoints of both", 60)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0, errors
    wait_for(lambda: not processes_below(run), "the workers to end")
    assert os.readlink(tmp_path / "runs" / "latest") == "P-SGD-1"
    (left,) = run.glob("agent-0/*.0")
    newest = Store(left / "checkpoints").newest()
    assert newest is not None
    folder = left / "out" if how == signal.SIGKILL else tmp_path / "Node-0-Retrieve"  # whence nobody has fetched it
    model = Model.load(folder / "MODEL-P-SGD-N(0).model")
    if how == signal.SIGINT:  # a killed process may have had no time for the model of its last checkpoint
        values = newest.part(VALUE)
        assert all((variable.value == values[variable.name]).all() for variable in model.trainable_variables())

    before = content(run)
    end = newest.header.position.epoch + 2
    result = (train if how == signal.SIGKILL else here)(tmp_path, resume="last", epoch=end)
    calm = here(tmp_path / "calm", epoch=end)
    assert weights(result) == weights(calm) and result == calm
    assert result.ledger is not None and result.ledger.problems == ()
    for node in (0, 1):
        for kind in ("TR", "EV"):
            assert rows(tmp_path, kind, node) == rows(tmp_path / "calm", kind, node)
    assert content(run) == before
    assert os.readlink(tmp_path / "runs" / "latest") == "P-SGD-2"


@covers("SUB-44")
@pytest.mark.long
def test_what_stays_after_the_block(tmp_path: Path) -> None:
    """Of a job that has ended well the last checkpoint of each worker, beside its files; every name of the run leads to
    it."""
    first = train(tmp_path, epoch=2)
    run = tmp_path / "runs" / "P-SGD-1"
    checkpoints = sorted(run.rglob("*.safetensors"))
    assert checkpoints == [run / f"Node-{n}-Retrieve/checkpoints/checkpoint-000002-00000000.safetensors" for n in (0, 1)]
    own = {"job.json", "job.toml", "manifest.json", "start.model", "outcome.json", "report.html", "timeline.json.gz"}
    own.add("identities.csv")
    assert {path.name for path in run.iterdir()} == {*own, "Node-0-Retrieve", "Node-1-Retrieve"}
    calm = weights(here(tmp_path / "calm", epoch=3))
    for name in ["last", first.job_id, run, tmp_path / "runs/latest", tmp_path / "Node-1-Retrieve", run / "Node-0-Retrieve"]:
        assert weights(here(tmp_path, epoch=3, resume=name)) == calm, name
        (newer,) = (path for path in (tmp_path / "runs").glob("P-SGD-*") if path.name != run.name)
        shutil.rmtree(newer)
        for link in (tmp_path / "runs" / "latest", tmp_path / "Node-0-Retrieve", tmp_path / "Node-1-Retrieve"):
            link.unlink()
            link.symlink_to("P-SGD-1" if link.name == "latest" else f"runs/P-SGD-1/{link.name}")


@pytest.mark.long
@covers("SUB-44")
def test_the_end_of_a_job_that_lost_a_worker_is_kept(tmp_path: Path) -> None:
    """The last checkpoint of each of those that ended it, not one from when there were three."""
    with parallel_sgd.local_workers(3) as nodes:
        settings = {**SETTINGS, "block_size": 48, "on_failure": "shrink", "fault": "kill 1@e2.b2"}
        result = digits_job().parallel(nodes, directory=tmp_path, epoch=3, **settings)
    run = tmp_path / "runs" / "P-SGD-1"
    assert result.restarts == 1 and not list(run.glob("agent-*"))
    checkpoints = sorted(run.rglob("*.safetensors"))
    assert checkpoints == [run / f"Node-{n}-Retrieve/checkpoints/checkpoint-000003-00000000.safetensors" for n in (0, 1)]


@covers("SUB-44")
@pytest.mark.long
def test_a_state_of_all_is_kept_once(tmp_path: Path) -> None:
    """Where all workers have the same; the tables of each go on all the same. Here the workers are a launcher's."""
    settings: dict[str, Any] = {"codec": None, "checkpoint_every": 4}
    with parallel_sgd.nodes_from("local:2") as nodes:
        digits_job().parallel(nodes, directory=tmp_path, epoch=2, **{**SETTINGS, **settings})
    assert len(list((tmp_path / "runs").rglob("*.safetensors"))) == 1
    result = here(tmp_path, epoch=3, resume="last", **settings)
    assert weights(result) == weights(here(tmp_path / "calm", epoch=3, codec=None))
    assert all(rows(tmp_path, "TR", node) == rows(tmp_path / "calm", "TR", node) for node in (0, 1))


@covers("SUB-44")
@pytest.mark.long
def test_a_server_goes_on(tmp_path: Path) -> None:
    """With what it remembers, also within this process."""
    settings: dict[str, Any] = {"codec": codec.ServerAdam, "op_type": GradientAveragingOptimizer, "block_size": 64, "seed": 11}
    with parallel_sgd.local_workers(2, ps=True) as nodes:
        digits_job().parallel(nodes, directory=tmp_path, epoch=1, **settings)
    assert len(list((tmp_path / "runs/P-SGD-1/Node--2-Retrieve/checkpoints").iterdir())) == 1
    with parallel_sgd.in_process(2, ps=True) as nodes:
        result = digits_job().parallel(nodes, directory=tmp_path, epoch=2, resume="last", **settings)
        calm = digits_job().parallel(nodes, directory=tmp_path / "calm", epoch=2, **settings)
    assert weights(result) == weights(calm)


@covers("SUB-44")
@pytest.mark.long
def test_work_directories_of_ones_own(tmp_path: Path) -> None:
    """With `work_dir` all stays there, whichever workers go on."""
    work = tmp_path / "new" / "work"
    with parallel_sgd.local_workers(2, work_dir=work) as nodes:
        first = digits_job().parallel(nodes, directory=tmp_path, epoch=2, **SETTINGS)
    assert len(list(work.glob(f"agent-*/jobs/{first.job_id}.*/checkpoints/*"))) >= 2
    assert not list((tmp_path / "runs").glob("*/agent-*"))
    calm = weights(here(tmp_path / "calm", epoch=3))
    assert weights(here(tmp_path, epoch=3, resume=first.job_id)) == calm
    with parallel_sgd.local_workers(2, work_dir=work) as nodes:
        again = digits_job().parallel(nodes, directory=tmp_path / "elsewhere", epoch=3, resume=first.job_id, **SETTINGS)
    assert weights(again) == calm  # its agents know the job


@pytest.mark.parametrize("work_dir", ["file", "file/below", "", 7, "nul\0"])
def test_a_work_dir_that_is_none(tmp_path: Path, work_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(ValueError, match=r"'work_dir' must be .*, got"), parallel_sgd.local_workers(1, work_dir=work_dir):
        raise AssertionError("it started")


@covers("SUB-44")
def test_a_job_that_was_not_started_is_no_run(tmp_path: Path) -> None:
    """Neither the last one nor the latest, and nothing of it stays."""
    first = here(tmp_path, epoch=1)
    with parallel_sgd.local_workers(1) as nodes:
        nodes.add(1, "127.0.0.1:1")
        with pytest.raises(NetworkError):
            digits_job().parallel(nodes, directory=tmp_path, epoch=1, **SETTINGS)
    assert [run.job for run in runs_in(tmp_path)] == [first.job_id]
    assert sorted(os.listdir(tmp_path / "runs")) == [".P-SGD-1", "P-SGD-1", "latest"]


@covers("SUB-44")
@pytest.mark.long
def test_two_programs_in_one_directory(tmp_path: Path) -> None:
    """Each has its run, with its own files; the links lead to one of them, whole."""
    programs = [start(tmp_path, f"train(Path(), epoch=1, seed={seed})") for seed in (1, 2)]
    for program in programs:
        _, errors = program.communicate(timeout=60)
        assert program.returncode == 0, errors
        (folder,) = re.findall(r"files in \./(runs/P-SGD-\d)\n", errors)
        assert re.findall(r"(?:report|model) +\./(runs/P-SGD-\d)/", errors) == [folder, folder]
    found = runs_in(tmp_path)
    assert sorted(run.path.name for run in found) == ["P-SGD-1", "P-SGD-2"]
    assert all((run.path / f"Node-{node}-Retrieve/MODEL-P-SGD-N({node}).model").is_file() for run in found for node in (0, 1))
    assert {os.readlink(tmp_path / f"Node-{node}-Retrieve").split("/")[1] for node in (0, 1)} == {found[0].path.name}


@pytest.mark.long
def test_workers_without_a_block(tmp_path: Path) -> None:
    """They are more or fewer from one job to the next, the jobs of before keep what they have, and they end once."""
    exact = {**SETTINGS, "codec": codec.Plain, "assignment_type": FixedBlockAssignment.of(3), "directory": tmp_path}
    nodes = parallel_sgd.local_workers(1)
    first = digits_job().parallel(nodes, epoch=1, **exact)
    assert nodes.agents is not None
    before = list(nodes.agents.pids)
    assert nodes.scale(1) is nodes and not any(map(is_gone, before))
    assert nodes.scale(3) is nodes and len(nodes) == 3 and all(map(is_gone, before))
    second = digits_job().parallel(nodes, epoch=2, resume=first.job_id, **exact)
    with parallel_sgd.in_process(1) as alone:
        calm = digits_job().parallel(alone, epoch=2, **{**exact, "directory": tmp_path / "calm"})
    assert second.models[2].store.values.tobytes() == calm.models[0].store.values.tobytes()
    with pytest.raises(ValueError, match="'count' must be a positive integer, got 0"):
        nodes.scale(0)
    nodes.close()
    nodes.close()
    assert all(map(is_gone, nodes.agents.pids))
    for use in (lambda: nodes.scale(2), nodes.__enter__):
        with pytest.raises(ClosedByUs, match="These workers have ended"):
            use()


def test_workers_end_with_their_program(tmp_path: Path) -> None:
    """With one that does not say so; what its job leaves is as after a block."""
    program = """
        import parallel_sgd
        from tests.processes.training.jobs import digits_job
        nodes = parallel_sgd.local_workers(1)
        digits_job().parallel(nodes, epoch=1)
        print(*nodes.agents.pids)
    """
    finished = python(tmp_path, "-c", textwrap.dedent(program))
    assert finished.returncode == 0, finished.stderr
    assert all(is_gone(int(pid)) for pid in finished.stdout.split())
    run = tmp_path / "runs" / "P-SGD-1"
    assert [path.parent.name for path in run.rglob("*.safetensors")] == ["checkpoints"] and not list(run.glob("agent-*"))


@covers("SUB-44")
def test_ctrl_c_while_they_end_with_their_program(tmp_path: Path) -> None:
    """It ends them at once, and Python shows no traceback of an exit handler."""
    program = """
        import os, signal, subprocess
        import parallel_sgd
        def terminate(agent):
            os.kill(agent.pid, signal.SIGSTOP)  # as one that takes its time
            signal.raise_signal(signal.SIGINT)
        subprocess.Popen.terminate = terminate
        print(*parallel_sgd.local_workers(1).agents.pids)
    """
    finished = python(tmp_path, "-c", textwrap.dedent(program))
    assert (finished.returncode, finished.stderr) == (0, "")
    assert all(is_gone(int(pid)) for pid in finished.stdout.split())

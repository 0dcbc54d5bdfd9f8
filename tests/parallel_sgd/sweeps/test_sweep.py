"""Sweeps in processes: what is trained, what is known again, and what a kill or Ctrl-C leaves."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from psgd import cli

import numpy as np
import pytest

from network.errors import NetworkError
from network.nodes import Address, NodeAssignment
from parallel_sgd import SweepResult, in_process, local_workers, simulated, sweep
from parallel_sgd.codec import REQUIRED, GlobalSettings, Plain
from parallel_sgd.sweeps.agents import AWAY_SECONDS, REST_SECONDS, SharedAgents
from parallel_sgd.sweeps.page import PAGE
from parallel_sgd.sweeps.results import RESULTS, SUMMARY, TABLE
from parallel_sgd.sweeps.sweep import _locked
from rpc.liveness.limits import RETURN_SECONDS
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp
from tests.parallel_sgd.sweeps.planned import Plan
from tests.proc import children_of
from tests.processes.training.jobs import digits_job
from tests.programs import environment
from tests.sources import ROOT, library_files
from tests.statements import covers


class Fails(Plain):
    """A codec with a bug."""

    def get_result(self) -> np.ndarray:
        raise RuntimeError("a bug of mine")


class Dies(Plain):
    """A codec whose process dies."""

    def get_result(self) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class PutsFolders(Plain):
    """A codec that puts a folder into the place of a table of its sweep."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        Path("sweeps/digits", GlobalSettings.get_params("share", REQUIRED)).mkdir(exist_ok=True)


class ReadsLate(Plain):
    """A codec of whose parameters nothing is known before it runs, and which reads none then."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if node_id < 0:
            GlobalSettings.get_params("".join(("sha", "re")), 0)


_WARNS = """
from parallel_sgd import sweep
from tests.parallel_sgd.sweeps.test_sweep import ReadsLate
from tests.processes.training.jobs import digits_job
given = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "codec_extra_parameters": {"share": 1}}
print(sweep(digits_job(), {"codec": [ReadsLate]}, 3, processes=2, **given).count("done"))
"""


@pytest.mark.processes
def test_what_all_runs_warn_of_is_told_once(tmp_path: Path) -> None:
    """Each is a job of a process of its own, and tells at once what none has told before."""
    done = subprocess.run(
        [sys.executable, "-c", _WARNS], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=200
    )
    assert done.stdout.strip() == "3", done.stderr
    told = "warning  No codec has read these of 'codec_extra_parameters': 'share'"
    assert [line for line in done.stderr.splitlines() if "share" in line] == [told], done.stderr


def folders(result: SweepResult) -> list[tuple[str, str]]:
    return [(row.told.folder, row.told.state) for row in result.rows]


@covers("RES-8")
@pytest.mark.processes
def test_each_run_is_trained_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A sweep with a larger grid trains what is new; one that failed is trained again if that is asked for; one whose process
    died always. Figures are those of the same job alone."""

    def run(codecs: list[object], seeds: int, **more: bool) -> SweepResult:
        common = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "directory": tmp_path, "title": "digits"}
        return sweep(digits_job(), {"codec": codecs}, seeds, processes=1, verbose=1, **common, **more)  # type: ignore[arg-type]

    caplog.set_level("INFO", SUBMIT_LOGGER)
    first = run(["plain"], 2)
    assert folders(first) == [("digits-1", "done"), ("digits-2", "done")]
    assert "[2/2] codec=plain, seed=1: Loss" in caplog.text
    wider = run(["plain", Fails, Dies], 1)
    assert folders(wider) == [("digits-1", "done"), ("digits-3", "failed"), ("digits-4", "interrupted")]
    assert [row.told.message for row in wider.rows[1:]] == [
        "RuntimeError: a bug of mine",
        "the process of the run has ended by signal 9",
    ]
    assert folders(run([Fails, Dies], 1)) == [("digits-3", "failed"), ("digits-5", "interrupted")]
    assert folders(run([Fails], 1, retry=True)) == [("digits-6", "failed")]
    # the same bits as of a job alone
    alone = Plan({"codec": ["plain"]}, [0, 1], directory=tmp_path / "alone")
    assert alone.identities == [row.identity for row in first.rows]
    assert [dict(alone.train(number)) for number in (0, 1)] == [row.told.figures for row in first.rows]
    assert first.rows[0].told.figures != first.rows[1].told.figures, "seeds differ in weights and order"
    assert sorted(path.name for path in first.folder.iterdir()) == [
        ".lock", "results.csv", "summary.csv", "sweep.html", "table.tex",
    ]  # fmt: skip


_PROGRAM = """
from parallel_sgd import sweep
from tests.parallel_sgd.sweeps.admitted import Admitted
from tests.processes.training.jobs import digits_job
given = {"epoch": 1, "gd_type": "sgd", "codec": {0: Admitted}}
result = sweep(digits_job(), {"block_size": [16, 17]}, 2, title="digits", processes=2, **given)
print(result.count("done"))
"""


def _states(place: Path) -> dict[tuple[str, str], tuple[str, str]]:
    with (place / "sweeps" / "digits" / "results.csv").open(newline="", encoding="utf-8") as file:
        return {(row["block_size"], row["seed"]): (row["run"], row["state"]) for row in csv.DictReader(file)}


def _begin(place: Path) -> tuple[subprocess.Popen[str], set[int]]:
    """Start the program, admit one run, and read on to its line; return it and its children, which have others under way."""
    (place / "admitted-1").touch()
    command = [sys.executable, "-c", _PROGRAM]
    process = subprocess.Popen(
        command, cwd=place, env=environment(place), stderr=subprocess.PIPE, text=True, stdout=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("["):
            break
    return process, children_of(process.pid)


def _ended(pids: set[int]) -> bool:
    deadline = time.monotonic() + 60
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(_is_alive(pid) for pid in pids)


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("ascii")
    except FileNotFoundError:
        return False


@covers("RES-8")
@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_kill_and_interrupt_lose_at_most_the_runs_under_way(tmp_path: Path) -> None:
    """No process stays behind, what was done is not trained again, and at the end there is a run for each identity."""
    process, children = _begin(tmp_path)
    process.kill()
    process.communicate(timeout=120)  # the children hold the other end of its standard error, too
    assert process.returncode == -signal.SIGKILL and len(children) == 2 and _ended(children)
    done = {key: each for key, each in _states(tmp_path).items() if each[1] == "done"}
    assert len(done) == 1
    process, children = _begin(tmp_path)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=120)[1]
    assert process.returncode == -signal.SIGINT or "KeyboardInterrupt" in text
    # of the sweep: a run whose report was being written has a line of its own
    lines = [line for line in text.splitlines() if line.startswith("warning  Sweep ")]
    assert lines[0] == "warning  Sweep digits was stopped by Ctrl-C." and len(lines) == 2, text
    assert " runs are done. The same sweep, started again, trains the others alone." in lines[1]
    assert _ended(children)
    after = _states(tmp_path)
    assert after.items() >= done.items() and sum(state == "done" for _, state in after.values()) == 2
    assert (tmp_path / "sweeps" / "digits" / "sweep.html").is_file(), "an interrupted sweep has its tables and its page"
    (tmp_path / "all").touch()
    last = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    end = _states(tmp_path)
    assert last.stdout == "4\n" and {state for _, state in end.values()} == {"done"}
    kept = {key: each for key, each in after.items() if each[1] == "done"}
    assert end.items() >= kept.items(), "runs that were done keep their folders"
    trained = len(end) - len(kept)
    assert last.stderr.count("\n[") + last.stderr.startswith("[") == trained and f"{trained} to train" in last.stderr


@pytest.mark.long
@covers("RES-8")
@pytest.mark.processes
def test_free_agents_and_simulated_nodes_train_with_the_figures_of_this_process(tmp_path: Path) -> None:
    """Of two agents each run takes one; of simulated nodes seconds are virtual, and said to be."""

    def run(nodes: NodeAssignment, folder: str) -> SweepResult:
        common = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "directory": tmp_path / folder, "workers": 1}
        return sweep(digits_job(), {"gd_params": {"learn_rate": [0.1, 0.2, 0.3]}}, nodes=nodes, verbose=0, **common)  # type: ignore[arg-type]

    with local_workers(2) as nodes:
        found = run(nodes, "agents")
        places = [nodes.agents.directory / f"agent-{number}" / "jobs" for number in range(2)]
        served = [len(list(place.iterdir())) for place in places]
        # as agents are that another program has started
        run(NodeAssignment(nodes.key_file).add(0, nodes[0]).add(1, nodes[1]), "lasting")
    for folder, kind in (("agents", "launched agents"), ("lasting", "agents")):
        records = list((tmp_path / folder / "runs").rglob("job.json"))
        assert records and {json.loads(path.read_text("utf-8"))["about"]["nodes"] for path in records} == {kind}
    here, there = run(in_process(1), "here"), run(simulated(2, "star 10Mbit/s 1ms", compute="5ms", codec_time=0), "there")
    assert [dict(row.told.figures) for row in found.rows] == [dict(row.told.figures) for row in here.rows]
    assert [dict(row.told.figures) for row in there.rows] == [dict(row.told.figures) for row in here.rows]
    assert {row.told.state for result in (found, here, there) for row in result.rows} == {"done"}
    assert (found.clock, here.clock, there.clock) == ("measured", "measured", "simulated")
    assert sum(served) == 3 and min(served) >= 1


@covers("RES-8")
@pytest.mark.processes
def test_an_agent_that_cannot_be_reached_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others serve its runs; where too few are left the sweep ends, its runs stay as they were, and the exit code is 4."""
    monkeypatch.chdir(tmp_path)
    common = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "title": "digits"}
    with local_workers(1) as one, socket.socket() as taken:
        # bound, so that nobody else gets the port, and refuses without listening
        taken.bind(("127.0.0.1", 0))
        nobody = Address("127.0.0.1", taken.getsockname()[1])
        nodes = NodeAssignment(one.key_file).add(0, nobody).add(1, one[0])
        found = sweep(digits_job(), {"workers": [1]}, 2, nodes=nodes, verbose=0, **common)  # type: ignore[arg-type]
        assert [state for _, state in folders(found)] == ["done", "done"]
        assert caplog.text.count(f"No worker is reached at {nobody} for node 0: ") == 1 and "left out for now" in caplog.text
        with pytest.raises(NetworkError, match=rf"^Too few agents can be reached .* at {re.escape(str(nobody))} for node 0: "):
            sweep(digits_job(), {"workers": [2, 1]}, 3, nodes=nodes, verbose=0, **common)  # type: ignore[arg-type]
        with open("sweeps/digits/results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["state"] for row in rows] == ["not run"] * 3 + ["done"] * 3, "a run that one agent can serve is trained"
        mlp().save("digits.model")
        Path("worker.json").write_text(json.dumps({"Worker": [str(nobody), str(one[0])]}))
        Path("sweep.toml").write_text('model = "digits.model"\ndataset = "digits"\nworkers = 2\n[grid]\ncodec = ["plain"]\n')
        assert cli.main(["sweep", "sweep.toml", "--workers", "worker.json", "--key-file", str(one.key_file)]) == 4
        assert cli.main(["sweep", "sweep.toml", "--workers", "worker.json", "--key-file", "none"]) == 2


def test_agents_that_are_away_are_asked_again() -> None:
    """One that has served a run has half a minute to come back; one that has not is missing at once."""
    one, two, three = (Address("192.0.2.1", port) for port in (1, 2, 3))
    agents = SharedAgents([one, two, three])
    assert agents.take(2) == (one, two) and agents.take(2) is None
    agents.give_back([one])
    agents.rest([two], now=0.0)
    assert agents.wakes == REST_SECONDS and agents.lacking(3, 0.0) == ""
    agents.wake(REST_SECONDS)
    assert agents.take(3) == (three, one, two)
    now = 10.0
    assert agents.miss([three, one, two], {one: "one is off", two: "two is off"}, now) == ["one is off", "two is off"]
    assert agents.lacking(3, now) == "two is off" and agents.lacking(2, now) == "", "the first one has served a run"
    now += AWAY_SECONDS
    agents.wake(now)
    assert agents.take(3) == (three, one, two), "those that were away come last"
    assert agents.miss([three, one, two], {one: "one is off"}, now) == []
    now = 10.0 + RETURN_SECONDS
    agents.wake(now)
    assert agents.lacking(3, now) == "one is off two is off"
    taken = agents.take(3)
    assert taken is not None
    agents.give_back(taken)
    assert agents.lacking(3, now + 1e6) == ""


def test_an_error_of_a_run_is_not_taken_for_another_program_s_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError, match="of a run"), _locked(tmp_path, "mine"):
        raise BlockingIOError("of a run")
    with _locked(tmp_path, "mine"), pytest.raises(ValueError, match="goes on in another program"), _locked(tmp_path, "mine"):
        pass


@pytest.mark.parametrize("name", [RESULTS, SUMMARY, TABLE, PAGE])
def test_a_folder_in_the_place_of_a_table_is_told_before_anything_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / "sweeps" / "digits" / name).mkdir(parents=True)
    with pytest.raises(ValueError, match=rf"^'directory' must be a folder that can be written to: .*/{name}: Is a directory$"):
        sweep(digits_job(), {"redundancy": [1]}, title="digits", directory=tmp_path, epoch=1, block_size=128)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", [RESULTS, PAGE])
def test_a_table_that_cannot_be_written_costs_no_run_and_no_result(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"epoch": 1, "block_size": 128, "gd_type": "sgd", "codec_extra_parameters": {"share": name}, "processes": 1}
    result = sweep(digits_job(), {"codec": [PutsFolders]}, 2, title="digits", **given)
    assert [row.told.state for row in result.rows] == ["done", "done"]
    assert result.problem == f"sweeps/digits/{name}: Is a directory"
    told = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    last = f"Tables and page of the sweep digits are not all written: {result.problem}. The same sweep, started again, writes"
    first = f"sweeps/digits/{name} cannot be written, the sweep goes on: Is a directory."
    assert [text for text in told if "written" in text] == [*([first] if name == RESULTS else []), f"{last} them."]
    Path("sweeps/digits", name).rmdir()
    again = sweep(digits_job(), {"redundancy": [1]}, 1, title="digits", epoch=1, block_size=128, gd_type="sgd")
    assert again.problem == "" and Path("sweeps/digits", name).is_file()


def test_no_worker_imports_sweeps() -> None:
    """Only the package's door, by name and when it is asked for, and the commands."""
    naming = {
        str(path.relative_to(ROOT))
        for path in library_files()
        if "sweeps" in path.read_text("utf-8") and path.relative_to(ROOT).parts[0] != "nn"
    }
    apart = {name for name in naming if "/sweeps/" not in name}
    assert apart == {"parallel_sgd/__init__.py", "parallel_sgd/commands/sweep.py", "psgd/cli.py", "psgd/sweeps.py"}

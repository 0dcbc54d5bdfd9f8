"""The console of a job: few lines that tell what a person wants to know, the whole story where it is asked for."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nn.callback import EarlyStopping
from parallel_sgd.record.summary import crowd_sentence
from rpc.support.processors import usable_cores
from tests.parallel_sgd.networks import mlp
from tests.processes.harness import cluster
from tests.programs import ROOT

from ...statements import covers

pytestmark = pytest.mark.processes
STORY = (
    "Start job.",
    "Reply requirements",
    "Node(0) is ready",
    "Current progress",
    "Save file for 0.",
    "All the tasks are done.",
)
SECONDS = r"(?:\d+(?:\.\d+)? (?:m|µ)?s|\d+ min \d+ s)"  # minutes on a machine that has no time
FIGURES = r"Loss -?\d+\.\d{4}   accuracy [01]\.\d{4}"
HEAD = [
    r"P-SGD: 2 workers on this machine, 1,500 training and 297 test samples, 4 epochs",
    r"job \d{8}-\d{6}-[0-9a-f]{8}, files in \./runs/P-SGD-1",
]
EPOCHS = [rf"epoch {epoch}/4   {FIGURES}   test: {FIGURES}" for epoch in (1, 2, 3, 4)]
END = [
    rf"done in {SECONDS} \(training {SECONDS}\): computing \d+ %, exchanging \d+ %, waiting \d+ %",
    rf"2 workers.* took {SECONDS}; one alone would have needed at most {SECONDS}.*\.",
    r"best     epoch \d, test accuracy [01]\.\d{4}",
    r"report   \./runs/P-SGD-1/report\.html",
    r"model    \./runs/P-SGD-1/Node-0-Retrieve/MODEL-P-SGD-N\(0\)\.model",
]


def program(nodes: str, **settings: object) -> list[str]:
    given = ", ".join(f"{name}={value!r}" for name, value in {"epoch": 4, **settings}.items())
    lines = [
        "import contextlib",
        "import parallel_sgd",
        "from nn.callback import EarlyStopping",
        "from tests.processes.training.jobs import digits_job",
        f"with {nodes} as nodes:",
        f"    print(digits_job().parallel(nodes, {given}))",
    ]
    return [sys.executable, "-c", "\n".join(lines)]


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def piped(directory: Path, nodes: str, **settings: object) -> list[str]:
    ended = subprocess.run(
        program(nodes, **settings), cwd=directory, env=environ(), capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [*ended.stderr.splitlines(), *ended.stdout.splitlines()]


def matches(lines: list[str], patterns: list[str]) -> bool:
    return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


@pytest.mark.parametrize("nodes", ["parallel_sgd.local_workers(2)", "parallel_sgd.in_process(2)"])
@pytest.mark.share(2)
def test_through_a_pipe(tmp_path: Path, nodes: str) -> None:
    """Two workers and four epochs have at most 25 lines, and these; the story is there for `verbose=2`."""
    *lines, result = piped(tmp_path, nodes)
    head = [HEAD[0].replace("on this machine", "in this process"), HEAD[1]] if "process" in nodes else HEAD
    crowd = [crowd_sentence(2, usable_cores())] if "local" in nodes and usable_cores() < 2 else []
    assert matches(lines, [*map(re.escape, crowd), *head, *EPOCHS, *END]), lines
    assert len(lines) < 25 and result.startswith("{'Loss': ")
    shown = subprocess.run(
        [sys.executable, "-m", "psgd", "show", "runs/P-SGD-1"], cwd=tmp_path, env=environ(), capture_output=True, text=True
    )
    alone = [line.strip() for line in shown.stdout.splitlines() if "one alone would" in line]
    assert alone == [line for line in lines if "one alone would" in line], shown


@pytest.mark.long
def test_a_job_that_goes_on(tmp_path: Path) -> None:
    """It says so before the epochs, which are those that the run before has not told."""
    piped(tmp_path, "parallel_sgd.local_workers(2)", epoch=2)
    *lines, _result = piped(tmp_path, "parallel_sgd.local_workers(2)", resume="last")
    said = [r"Training of P-SGD-1 goes on after 2 epochs, with epoch 3\.", HEAD[1].replace("P-SGD-1", "P-SGD-2")]
    assert matches(lines[:-5], [HEAD[0], *said, *EPOCHS[2:]]), lines


def test_a_job_that_a_callback_ends(tmp_path: Path) -> None:
    """It tells after how many of its epochs, as the head has told all."""
    *lines, _result = piped(tmp_path, "parallel_sgd.in_process(2)", callbacks=[EarlyStopping("val_Loss", 1, mode="max")])
    ended = [END[0].replace(r"\)", r"\) after 2 of 4 epochs, as a callback asked"), *END[1:]]
    assert matches(lines, [HEAD[0].replace("on this machine", "in this process"), HEAD[1], *EPOCHS[:2], *ended]), lines


def test_simulated(tmp_path: Path) -> None:
    """The hosts stand in a line of their own, and virtual seconds are called that."""
    *lines, _result = piped(tmp_path, "parallel_sgd.simulated(2, 'star 100Mbit/s 1ms', compute='1ms', codec_time=0)")
    head = [
        HEAD[0].replace("on this machine", "on simulated hosts"),
        r"hosts    star of 2 hosts; 100 Mbit/s and 1 ms; .*",
        HEAD[1],
    ]
    simulated = rf"\. Simulated, not measured: {SECONDS} of virtual time, without the time of codecs: "
    done = END[0].replace(rf" \(training {SECONDS}\): ", simulated, 1)
    assert matches(lines, [*head, *EPOCHS, done, *END[1:]]), lines


@pytest.mark.long
def test_the_whole_story(tmp_path: Path) -> None:
    lines = piped(tmp_path, "parallel_sgd.local_workers(2)", verbose=2)
    text = "\n".join(lines)
    assert all(part in text for part in STORY)
    assert matches([line for line in lines if line.startswith("epoch ")], EPOCHS) and matches(lines[-6:-1], END)


def on_terminal(folder: Path, columns: int, **settings: object) -> tuple[bytes, list[str]]:
    """Return all that a job writes to a terminal of so many columns, and the lines that stand there at its end."""
    leader, follower = pty.openpty()
    terminal = {**environ(), "TERM": "xterm", "COLUMNS": str(columns)}
    command = program("parallel_sgd.local_workers(2)", **settings)
    with subprocess.Popen(command, cwd=folder, env=terminal, stdout=follower, stderr=follower, stdin=follower) as process:
        os.close(follower)
        data = b""
        while True:
            try:
                data += (part := os.read(leader, 65536))
            except OSError:  # the program has ended, and nothing waits
                break
            if not part:
                break
    os.close(leader)
    assert process.returncode == 0, data
    rows = [row.rstrip("\r").rpartition("\r")[2] for row in data.decode().split("\n")]
    return data, [row.rstrip() for row in rows if row.strip() and "workers:" not in row]


@pytest.mark.long
def test_on_a_terminal(tmp_path: Path) -> None:
    """The same lines, and one bar for all workers while it runs, which leaves no line behind."""
    data, shown = on_terminal(tmp_path, 120)
    assert matches(shown[-12:-1], [*HEAD, *EPOCHS, *END]) and len(shown) <= 13, shown
    assert b"2 workers: " in data and "Worker(0)" not in data.decode()


@pytest.mark.long
def test_on_a_narrow_terminal(tmp_path: Path) -> None:
    """No line but those of paths, and that of the program itself, is wider, be it shown above the bar or not."""
    _, shown = on_terminal(tmp_path, 70, on_failure="restart", fault="kill 1@e2.b3")
    told = [line for line in shown if not line.startswith(("report ", "model ", "job ", "{"))]
    assert max(map(len, told)) <= 70 and sum(line.startswith(" " * 9) for line in told) >= 2, shown
    assert re.sub(r"\n +", " ", "\n".join(told)).count("(restart 1 of at most 3).") == 1, shown


@pytest.mark.long
def test_a_fault_is_a_sentence(tmp_path: Path) -> None:
    """Of a worker that died, and of the restart; the end says how many restarts there were."""
    lines = piped(tmp_path, "parallel_sgd.local_workers(2)", on_failure="restart", fault="kill 1@e2.b3")
    told = [line for line in lines if line.startswith(("error ", "warning "))]
    assert len(told) == 2 and len(lines) < 25, lines
    assert re.search(r"Node\(1\) on .*, in epoch 2, batch 3: killed by signal 9 \(SIGKILL\)\.$", told[0])
    assert told[1].endswith("All nodes start again from the newest state that any of them has (restart 1 of at most 3).")
    assert any(re.match(rf"done in {SECONDS} \(training {SECONDS}\), 1 restart: computing", line) for line in lines)
    # rows of the second that the worker had not written
    lost = f"{EPOCHS[1]}(   [(]figures of [12] training steps? lost with a worker[)])?"
    assert matches([line for line in lines if line.startswith("epoch ")], [EPOCHS[0], lost, *EPOCHS[2:]])


@pytest.mark.long
def test_an_error_of_a_worker_that_starts_again_is_a_sentence(tmp_path: Path) -> None:
    lines = piped(tmp_path, "parallel_sgd.local_workers(2)", on_failure="restart", fault="raise 1@e2.b3")
    told = [line for line in lines if line.startswith(("error ", "warning "))]
    assert sum("Injected fault: raise 1@e2.b3" in line for line in told) == 1 and len(lines) < 25, lines
    assert not any(line.startswith("\t") for line in lines)


@covers("SUB-10", "SUB-12")
@pytest.mark.long
def test_agents_of_a_node_file_keep_the_story(tmp_path: Path) -> None:
    """Each line once; further tables are one line; the last lines are those of every job."""
    with cluster(tmp_path / "agents") as agents:
        addresses = [str(agent.address) for agent in agents.start(2)]
        (tmp_path / "worker.json").write_text(json.dumps({"Worker": addresses}))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PSGD_KEY_FILE", str(agents.key_file))
            lines = piped(tmp_path, "contextlib.nullcontext(parallel_sgd.parse_worker(2))")
    text = "\n".join(lines)
    assert all(part in text for part in STORY) and "100%" in text
    for once in ("Start job.", "Dispatch complete.", "All the tasks are done.", "Save file for 0.", "Save file for 1."):
        assert text.count(once) == 1
    assert not any(line.startswith("epoch ") for line in lines) and matches(lines[-6:-1], END), lines
    listed = [line for line in lines if line.startswith("\t\t--> ") and "Node-0" in line]
    assert [re.sub(r".*/|N\(0\).*| .*", "", line.strip()[4:]) for line in listed if "tables" not in line]
    assert re.fullmatch(r"\t\t--> \./runs/P-SGD-1/Node-0-Retrieve: tables TI, .*, WH.*", listed[-1]), listed
    assert not any("/TI-" in line or "/WH-" in line for line in listed)


@pytest.mark.long
def test_more_workers_than_cores_are_told_first(tmp_path: Path) -> None:
    count = usable_cores() + 1
    lines = piped(tmp_path, f"parallel_sgd.local_workers({count})", epoch=1)
    assert lines[0] == crowd_sentence(count, usable_cores()) and f"{count} workers share " in lines[0]
    assert any(
        re.match(rf"{count} workers, which took turns, took .*; one alone would have needed at most ", line) for line in lines
    )


def interrupted(command: list[str], directory: Path, epochs: int = 4000) -> list[str]:
    """Return what a job says that Ctrl-C stops after three of so many epochs; how it has ended is asserted."""
    job = subprocess.Popen(command, cwd=directory, env=environ(), stderr=subprocess.PIPE, text=True)
    assert job.stderr is not None
    for line in job.stderr:
        if line.startswith(f"epoch    3/{epochs}"):
            break
    job.send_signal(signal.SIGINT)
    with job.stderr:
        said = job.stderr.read().splitlines()
    assert job.wait(30) in (-signal.SIGINT, 130)
    assert not any(line.startswith("error") for line in said), said
    return said


def as_file(directory: Path, nodes: str, call: str) -> list[str]:
    """A program in a file, as users write it: its call stands on lines of its own."""
    (directory / "train.py").write_text(
        "import parallel_sgd\n"
        "from tests.processes.training.jobs import digits_job\n"
        "more = dict(checkpoint_every='epoch')\n"
        f"with {nodes} as nodes:\n    print(\n        {call}\n    )\n"
    )
    return [sys.executable, "train.py"]


@pytest.mark.parametrize("nodes", ["parallel_sgd.local_workers(2)", "parallel_sgd.in_process(2)"])
@pytest.mark.long
def test_a_job_that_is_interrupted(tmp_path: Path, nodes: str) -> None:
    """It ends with its report and the call of the program that lets it go on, which does."""
    call = "digits_job().parallel(\nnodes,\nepoch=4000,\n**more)"
    said = interrupted(as_file(tmp_path, nodes, call), tmp_path)
    told = "digits_job().parallel(nodes, epoch=4000, **more, resume='last')"
    ends = ["warning  The job was stopped by Ctrl-C.", "report   ./runs/P-SGD-1/report.html", f"go on    {told}"]
    assert said[-3:] == ends, said
    done = max([3, *(int(line[6:12].split("/")[0]) for line in said if line.startswith("epoch "))])
    again = as_file(tmp_path, nodes, told.replace("4000", str(done + 20)))
    ended = subprocess.run(again, cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=120, check=False)
    assert " goes on after " in ended.stderr and ended.stdout.startswith("{'Loss': "), ended


@pytest.mark.long
def test_a_job_in_this_process_without_checkpoints_has_nothing_to_go_on_from(tmp_path: Path) -> None:
    said = interrupted(program("parallel_sgd.in_process(2)", epoch=4000), tmp_path)
    assert said[-1] == "report   ./runs/P-SGD-1/report.html", said
    assert "There is no checkpoint." in (tmp_path / "runs/P-SGD-1/report.html").read_text()


@pytest.mark.long
def test_a_command_that_is_interrupted(tmp_path: Path) -> None:
    """It ends with the whole command that goes on, which a shell takes as it is."""
    mlp().save(tmp_path / "my net.model")
    begin = [sys.executable, "-m", "psgd", "submit", "-m", "my net.model", "--local", "2", "--dataset", "digits"]
    said = interrupted([*begin, "--epochs", "4000"], tmp_path)
    # by the interpreter of the environment, or its name where a shell finds it by that
    called, _, line = said[-1].partition(" -m ")
    assert called.removeprefix("go on").strip() in (sys.executable, os.path.basename(sys.executable)), said
    assert line == "psgd submit -m 'my net.model' --local 2 --dataset digits --epochs 4000 --resume last", said
    done = max([3, *(int(each[6:12].split("/")[0]) for each in said if each.startswith("epoch "))])
    again = [sys.executable, "-m", *shlex.split(line.replace("4000", str(done + 20)))]
    ended = subprocess.run(again, cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=120, check=False)
    assert " goes on after " in ended.stderr and ended.stdout.startswith("{'Loss': "), ended

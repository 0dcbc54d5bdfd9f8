"""`fault=`: what a job asks to go wrong goes wrong, at that step, once; and what the policies make of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed, in_process
from parallel_sgd.nodes import LocalNodes
from tests.processes.training.jobs import FOUR_BLOCKS, line_job, only_weights, said, some

pytestmark = pytest.mark.processes


def run(agents: LocalNodes, folder: Path, fault: str, workers: int = 3, **further: Any) -> Any:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2, "on_failure": "restart"}
    settings |= {"fault": fault, "directory": folder, "stall_timeout": 1.0}
    return line_job().parallel(some(agents, workers), **settings | further)


def fired(folder: Path, fault: str) -> int:
    """How often a clause has been injected, by the logs of all nodes."""
    lines = [line for path in folder.glob("Node-*-Retrieve/Fit-*.log") for line in path.read_text("utf-8").splitlines()]
    return sum("Injected fault in attempt" in line and line.endswith(f": {fault}.") for line in lines)


@pytest.fixture(scope="module")
def calm(agents: LocalNodes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return only_weights(run(agents, tmp_path_factory.mktemp("calm"), ""))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("kill 1@e2.b2", id="FLT-1"),
        pytest.param("stop 2@e1.b3", id="FLT-2"),
        pytest.param("raise 0@e3.b1", id="FLT-5"),
        pytest.param("nan 1@e2.b1", id="FLT-6"),
        pytest.param("exit 2@e2 code 3", id="FLT-5, exit"),
        pytest.param("hang 1@e2.b3", id="FLT-2, hang"),
    ],
)
def test_faults_of_a_process(agents: LocalNodes, tmp_path: Path, calm: bytes, fault: str) -> None:
    """FLT-1, FLT-2, FLT-5, FLT-6: it fires once, the job starts again, and the weights are those of a calm run."""
    result = run(agents, tmp_path, fault)
    assert result.restarts == 1
    assert only_weights(result) == calm
    assert fired(tmp_path, fault) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("+100ms 0>1@e1.b2 for 1s", id="FLT-9"),
        pytest.param("swallow 1>2@e2.b1 for 500ms", id="FLT-7"),
        pytest.param("stop 2@e1.b3 for 300ms", id="FLT-2, short"),
        pytest.param("throttle 0>2@e1.b1 80kbit for 1s", id="throttle"),
    ],
)
def test_faults_that_pass(agents: LocalNodes, tmp_path: Path, calm: bytes, fault: str) -> None:
    """FLT-9, FLT-7, INV-9: a slow link, or one that stands still for less than anybody's patience, changes nothing."""
    result = run(agents, tmp_path, fault)
    assert result.restarts == 0
    assert only_weights(result) == calm
    assert fired(tmp_path, fault) == 1


def test_a_link_that_is_cut(agents: LocalNodes, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """FLT-8: both ends lose each other, nobody is to blame; under 'shrink' all three go on in the next attempt."""
    caplog.set_level(logging.INFO)
    result = run(agents, tmp_path, "cut 0-2@e2.b2", on_failure="shrink")
    assert (result.restarts, sorted(result.models)) == (1, [0, 1, 2])
    assert only_weights(result) == calm
    assert any(line.startswith("All nodes start again") for line in said(caplog.records))


def test_a_fault_in_every_attempt(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """FD-20: what fails three times at the same place is not tried a fourth time."""
    with pytest.raises(JobFailed, match="epoch 2, batch 1"):
        run(agents, tmp_path, "kill 1@e2.b1@a*", workers=2, max_restarts=9)
    assert "Giving up: the same failure has come 3 times at the same place, so it would come again." in said(caplog.records)


def test_a_second_fault_while_the_first_is_mended(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """FLT-19: another worker dies at the very batch with which the second attempt goes on."""
    result = run(agents, tmp_path, "kill 1@e2.b2; kill 0@e2.b2@a1")
    assert (result.restarts, only_weights(result)) == (2, calm)
    assert fired(tmp_path, "kill 0@e2.b2@a1") == 1


def test_all_but_one_are_lost(agents: LocalNodes, tmp_path: Path, calm: bytes) -> None:
    """FLT-21: two of three die in the same batch, or one after the other; the last one goes on alone, with the same batches."""
    result = run(agents, tmp_path, "kill 1@e2.b2; kill 2@e2.b2", on_failure="shrink")
    assert sorted(result.models) == [0]
    assert only_weights(result) == calm


@pytest.mark.parametrize("settings", [{"fault": "kill 1@e1"}, {"discovery": list}], ids=str)
def test_what_needs_processes_of_its_own(settings: dict[str, Any], tmp_path: Path) -> None:
    """Within the user's own process nobody is killed, and nobody joins."""
    with in_process(2) as nodes, pytest.raises(ValueError, match=r"'\w+' needs nodes with processes of their own"):
        line_job().parallel(nodes, directory=tmp_path, **settings)

"""What is handed on of a job: everything that an attempt needs, and no object of the user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nn
from network import NodeAssignment
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer
from parallel_sgd.codec.plain import Plain
from parallel_sgd.job import ParallelSGD
from parallel_sgd.job_executor import MISC, MODEL, SAMPLES, SETTING, TRANSFER, describe_node, keep_description
from parallel_sgd.manifest import AttemptState, JobManifest, attempt_resources, make_manifest
from parallel_sgd.plan import reassigned
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.socket_channel import can_do_without
from parallel_sgd.spec import JobSpec
from rpc.files import CONFIGURATION
from rpc.logs import get_logger
from rpc.submit.recovery import DETERMINISTIC, Recovery
from tests.parallel_sgd.digits_job import plan_of
from tests.parallel_sgd.networks import mlp


class Mine(Plain):
    """A codec of the user."""


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobSpec:
    """Of a job with code of its own, for two workers."""
    found: list[JobSpec] = []
    monkeypatch.setattr("parallel_sgd.job.run_on_agents", lambda spec, *_: found.append(spec))
    nodes = NodeAssignment().add(0, "127.0.0.1").add(1, "127.0.0.1")
    blocks = FixedBlockAssignment.of(blocks=4)
    ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls()).parallel(
        nodes, redundancy=2, codec=Mine, assignment_type=blocks, on_failure="redundant", directory=tmp_path
    )
    return found[0]


def test_it_travels_unchanged(spec: JobSpec, tmp_path: Path) -> None:
    made = make_manifest(spec, 1234, "job-1")
    content = made.to_bytes()
    assert content == make_manifest(spec, 1234, "job-1").to_bytes()
    (tmp_path / "manifest").write_bytes(content)
    read = JobManifest.read(tmp_path / "manifest")
    assert (read.workers, read.server) == (
        made.workers.__class__(made.workers.objects, made.workers.code, ()),
        made.server.__class__(made.server.objects, made.server.code, ()),
    )
    assert b"Mine" in read.workers.code  # the user's code is bytes here; nobody has loaded it
    assert read.to_bytes() == content
    assert (read.job, read.policy, read.options.mission_title) == ("job-1", "redundant", "P-SGD")
    assert can_do_without(read, {1}) and not can_do_without(read, {0, 1})


def test_what_depends_on_the_attempt_is_data(spec: JobSpec, tmp_path: Path) -> None:
    """The code bundle is the same for all attempts; number and workers of each go with the settings."""
    (tmp_path / "manifest").write_bytes(make_manifest(spec, 1234, "job-1").to_bytes())
    resources = JobManifest.read(tmp_path / "manifest").resources
    samples = (np.ones(3, np.float32),) * 4
    first = attempt_resources(resources, 0, 2, 1e6, lambda: samples)
    second = attempt_resources(resources, 1, 1, 1e6, lambda: samples)
    assert (first(0, SETTING)["attempt"], first(0, SETTING)["workers"]) == (0, 2)
    assert (second(0, SETTING)["attempt"], second(0, SETTING)["workers"]) == (1, 1)
    assert first(0, MISC)["start_seconds"] > second(0, MISC)["start_seconds"]
    assert (first(0, MODEL) == np.frombuffer(spec.model.to_bytes(), np.uint8)).all()
    assert len(first(1, SAMPLES)) == 4
    assert first(0, TRANSFER)["codec"] == "Mine"
    assert reassigned(spec.plan.assignment, 1).node_2_block == [[0, 1, 2, 3]]


def test_an_attempt_state_says_where_and_how_often() -> None:
    nodes = NodeAssignment().add(-2, "there:7").add(0, "here:8")
    recovery = Recovery("restart", 5)
    for _ in range(DETERMINISTIC - 1):
        assert recovery.give_up([(0, 1, 2)]) == ""
    state = AttemptState.from_json(AttemptState.of(3, nodes, recovery).to_json())
    assert state.attempt == 3
    assert {node: str(address) for node, address in state.assignment().items()} == {-2: "there:7", 0: "here:8"}
    standby = Recovery("restart", 5)
    standby.load_state_dict(state.recovery)
    assert standby.restarts == DETERMINISTIC - 1
    assert "the same failure has come 3 times" in standby.give_up([(0, 1, 2)])


def test_parameters_are_named(tmp_path: Path) -> None:
    """Also those whose keys JSON does not know."""
    parameters = {"bits": 4, ("x", 1): 2.5, None: 1}
    plan = plan_of(IIDBlockAssignment(2), optimizer=OpContainer(PSGDOptimizer, SGDOptimizer), codec_extra_parameters=parameters)
    described = describe_node(0, 0, {"misc_package": {"epochs": 1}, "extra_package": [4, 2.5, 1]}, plan)
    assert described["codec_parameters"] == {"bits": 4, "('x', 1)": 2.5, "None": 1}
    assert described["settings"] == {"misc_package": {"epochs": 1}}
    keep_description(tmp_path, described, get_logger("test"))
    assert "('x', 1)" in (tmp_path / CONFIGURATION).read_text()

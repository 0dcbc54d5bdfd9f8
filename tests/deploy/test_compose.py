"""compose.yaml: what must agree in it, and its commands as processes on this machine, without an engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from network.key_files import create_key_file
from parallel_sgd.commands.options import make_parser
from rpc.agent.cli import _parser as worker_parser
from tests.parallel_sgd.networks import mlp
from tests.processes.harness import wait_for
from tests.sources import ROOT
from tests.statements import covers

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: it is in the group dev")
TEXT = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
COMPOSE = yaml.safe_load(TEXT)
WORKERS = {name: service for name, service in COMPOSE["services"].items() if name.startswith("worker-")}
KEY_FILE = "/run/secrets/key"


def submitted() -> list[str]:
    """What the comment tells to type behind `psgd`."""
    (line,) = (line for line in TEXT.splitlines() if "run --rm psgd submit" in line)
    words: list[str] = line.partition("run --rm psgd ")[2].split()
    return words


@covers("SEC-16", "SEC-23")
def test_the_key_is_a_file_and_nobody_is_root() -> None:
    assert COMPOSE["secrets"]["key"] == {"file": "${PSGD_CLUSTER_KEY:-./cluster.key}"}
    for service in COMPOSE["services"].values():
        assert service["secrets"] == ["key"] and not {"ports", "privileged", "env_file"} & service.keys()
        assert (service["user"], service["read_only"], service["cap_drop"]) == ("1000:1000", True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"] and service["init"]
        assert not {"PSGD_KEY"} & service["environment"].keys()
    assert COMPOSE["services"]["psgd"]["environment"]["PSGD_KEY_FILE"] == KEY_FILE
    assert COMPOSE["networks"] == {"psgd": {"internal": True}}


def test_the_workers_are_those_of_the_node_file() -> None:
    nodes = json.loads(COMPOSE["configs"]["workers"]["content"])
    assert nodes == {"Worker": [*WORKERS]} and len(WORKERS) == 3
    (config,) = COMPOSE["services"]["psgd"]["configs"]
    options = make_parser().parse_args(submitted()[1:])
    assert (options.workers, options.worker_count) == (config["target"], len(WORKERS))
    volumes = [volume for worker in WORKERS.values() for volume in worker["volumes"]]
    assert {volume.partition(":")[0] for volume in volumes} == COMPOSE["volumes"].keys()
    for worker in WORKERS.values():
        told = worker_parser().parse_args(worker["command"])
        assert (told.port, told.key_file) == (15387, KEY_FILE) and told.work_dir.startswith("/var/lib/psgd/")
        assert worker["healthcheck"]["test"] == ["CMD", "test", "-f", told.announce]
        assert told.grace < int(worker["stop_grace_period"].removesuffix("s"))


@pytest.mark.long
@pytest.mark.processes
def test_three_workers_and_what_submits_to_them(tmp_path: Path) -> None:
    """With files below another root, on free ports of this machine: healthy, trained, and gone upon SIGTERM."""
    create_key_file(tmp_path / "key")
    mlp().save(tmp_path / "dnn.model")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    with ExitStack() as stack:
        workers: list[tuple[subprocess.Popen[bytes], Path]] = []
        for name, service in WORKERS.items():
            folder = tmp_path / name
            folder.mkdir()
            command = here(service["command"], {KEY_FILE: f"{tmp_path}/key", "/tmp": str(folder), "/var/lib/psgd": str(folder)})
            begin = [sys.executable, "-m", "rpc.agent.cli", *command]
            process = stack.enter_context(subprocess.Popen(begin, cwd=folder, env=environ, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
            workers.append((process, folder / "address"))
        wait_for(lambda: all(place.exists() for _, place in workers), "the workers to be healthy", limit=60.0)
        nodes = {"Worker": [place.read_text("utf-8").strip() for _, place in workers]}
        (tmp_path / "worker.json").write_text(json.dumps(nodes), "utf-8")
        command = here(submitted(), {"/etc/psgd": str(tmp_path)})
        given = {**environ, "PSGD_KEY_FILE": f"{tmp_path}/key"}
        finished = subprocess.run(
            [sys.executable, "-m", "psgd", *command, "--epochs", "1"], cwd=tmp_path, env=given, capture_output=True, timeout=100
        )
        assert finished.returncode == 0, finished.stderr.decode()
        assert len(list((tmp_path / "runs" / "latest").glob("Node-*-Retrieve/MODEL-*.model"))) == len(WORKERS)
        for process, _ in workers:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(timeout=40) for process, _ in workers] == [0] * len(WORKERS)


def here(command: list[str], places: dict[str, str]) -> list[str]:
    """A command of a container with other places, that listens on a free port of this machine."""
    changed = {"--listen=0.0.0.0": "--listen=127.0.0.1", "--port=15387": "--port=0"}
    given = re.compile("|".join(map(re.escape, places)))
    return [changed.get(word) or given.sub(lambda match: places[match[0]], word) for word in command]

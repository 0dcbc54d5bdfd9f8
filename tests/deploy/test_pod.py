"""The container of kubernetes.yaml as its pod would start it, with its files below another root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from network import NodeAssignment, Request
from network.key_files import create_key_file
from network.nodes import Address
from rpc.agent.children import project_root
from tests.processes.executors import Sum
from tests.processes.harness import LIMIT, start_job, wait_for

pytestmark = pytest.mark.processes
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: it is in the group dev")


def test_a_pod(tmp_path: Path) -> None:
    """Ready when it listens; upon SIGTERM it is not ready any more, and ends with code 0."""
    text = (Path(project_root()) / "deploy" / "kubernetes.yaml").read_text("utf-8")
    text = text.replace("/var/lib/psgd", f"{tmp_path}/work").replace("/tmp/address", f"{tmp_path}/address")
    text = text.replace("/secret/key", f"{tmp_path}/key").replace("/run/psgd", f"{tmp_path}/run")
    text = text.replace("--listen=0.0.0.0", "--listen=127.0.0.1").replace("--port=15387", "--port=0")
    pod = next(each for each in yaml.safe_load_all(text) if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    create_key_file(tmp_path / "key")
    (tmp_path / "key").chmod(0o440)  # as a Secret has it where there is a group
    given = {"POD_IP": "127.0.0.1", "POD_INDEX": "3"}  # the host's name is no pod's
    variables = {each["name"]: each.get("value", given.get(each["name"])) for each in container["env"]}
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": project_root(), "POD_INDEX": "3", **variables}
    (tmp_path / "work").mkdir()
    (tmp_path / "run").mkdir()
    for _ in range(2):  # the second time where a pod is set up anew
        subprocess.run(pod["initContainers"][0]["command"], check=True)
    command = [sys.executable, "-m", "rpc.agent.cli", *container["args"]]
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    probe = container["readinessProbe"]["exec"]["command"]
    try:
        wait_for(lambda: subprocess.run(probe, check=False).returncode == 0, "the pod to be ready")
        nodes = NodeAssignment(tmp_path / "run" / "key").add(0, Address.parse((tmp_path / "address").read_text()))
        with Request().request(nodes) as com:
            results, error = start_job(com, Sum, tmp_path).join()
        assert not error and list(results) == [0]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=LIMIT)
        assert process.returncode == 0 and b"Worker leaves: told by SIGTERM." in said
        assert subprocess.run(probe, check=False).returncode == 1
    finally:
        process.kill()
        process.communicate()

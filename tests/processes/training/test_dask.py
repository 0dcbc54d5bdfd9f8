"""Agents on a real Dask cluster of this machine: they come and go with its workers, and so do the workers of a job."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from network import NetworkError, NodeAssignment, Request
from network.keys import KeyFileError
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import GlobalSettings
from rpc.launch.dask import DaskLauncher
from tests.dask_cluster import dask
from tests.processes.harness import SLACK, processes_below, wait_for
from tests.processes.training.jobs import FOUR_BLOCKS, here, line_job, only_weights, said

from ...statements import covers

LONG = 60.0  # for a Dask worker to come up while others use the machine


class UntilTold(Plain):
    """Every batch takes a moment, until there is a file."""

    def update_blocks(self, block_weight: Any) -> Any:
        if not Path(GlobalSettings.get_params("GATE")).exists():
            time.sleep(0.06)
        return super().update_blocks(block_weight)


@pytest.mark.long
def test_workers_of_a_job_come_and_go_with_those_of_dask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 workers, 3 while Dask has 3, 2 again; the weights are those of a calm run. A Dask worker that is killed takes its agent
    along, and the one that takes its place has another. Within 5 s of the cluster's end there is no agent."""
    caplog.set_level(logging.INFO)
    folder, gate = tmp_path / "dask", tmp_path / "gate"
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 120, "block_size": 2, "directory": tmp_path}
    settings |= {"codec": {0: UntilTold}, "codec_extra_parameters": {"GATE": str(gate)}}

    def waited_for(nodes: str) -> int:
        return said(caplog.records).count(f"Waiting for ({nodes}) ...")

    def scale(cluster: Any) -> None:
        try:
            wait_for(lambda: waited_for("{0, 1}"), "the job to begin", LONG)
            cluster.scale(3)
            wait_for(lambda: waited_for("{0, 1, 2}"), "a third worker", LONG)
            cluster.scale(2)
            wait_for(lambda: waited_for("{0, 1}") > 1, "it to leave", LONG)
        finally:
            gate.touch()

    with dask(folder, 2) as (cluster, client), ThreadPoolExecutor(1) as pool:
        launcher = DaskLauncher(client)
        nodes = NodeAssignment()
        for node, address in enumerate(launcher.start(2)):
            nodes.add(node, address)
        nodes.key_file = launcher.key_file
        scaled = pool.submit(scale, cluster)
        result = line_job().parallel(nodes, discovery=launcher.discover, min_workers=2, max_workers=3, **settings)
        scaled.result(LONG)
        assert (sorted(result.models), result.failures) == ([0, 1], {})
        assert only_weights(result) == only_weights(here(line_job(), 4, **settings))

        before = wait_for(lambda: len(found := launcher.discover()) == 2 and found, "two agents to be left", LONG)
        wait_for(lambda: len(processes_below(folder)) == 2, "no third agent to be left")
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        after = wait_for(lambda: len(found := launcher.discover()) == 2 and found != before and found, "a new agent", LONG)
        assert len(set(before) & set(after)) == 1
        wait_for(lambda: len(processes_below(folder)) == 2, "the agent of the killed worker to be gone")
        _check_that_nobody_waits_for_a_busy_worker(launcher, client, tmp_path / "busy", monkeypatch)
    wait_for(lambda: not processes_below(folder), "all agents to end with the cluster", 5.0 + SLACK)
    launcher.close()


def _hold_up(begun: str, gate: str) -> None:
    """Keep the event loop of a Dask worker busy."""
    Path(begun).touch()
    end = time.monotonic() + LONG
    while not Path(gate).exists() and time.monotonic() < end:
        time.sleep(0.01)


def _check_that_nobody_waits_for_a_busy_worker(
    launcher: DaskLauncher, client: Any, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose agent is not known yet does not answer: the others are found meanwhile."""
    assert DaskLauncher._ask.__kwdefaults__ is not None
    monkeypatch.setitem(DaskLauncher._ask.__kwdefaults__, "seconds", 0.5)
    both = launcher.discover()
    busy = next(iter(launcher._agents))
    address = launcher._agents.pop(busy)
    gate = begun.with_suffix(".gate")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(client.run, _hold_up, str(begun), str(gate), workers=[busy])
        try:
            wait_for(begun.exists, "the worker to be busy", LONG)
            assert launcher.discover() == [line for line in both if not line.startswith(str(address))]
        finally:
            gate.touch()
        wait_for(lambda: set(launcher.discover()) == set(both), "the busy worker to answer", LONG)


@pytest.mark.long
def test_all_agents_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few in time, or one that does not come up: an error that says why, and no agent is left; the cluster goes on."""
    folder = tmp_path / "dask"
    with dask(folder, 1, processes=False) as (_, client):
        with pytest.raises(NetworkError, match="waiting for 2 agents on the Dask cluster, which has"):
            DaskLauncher(client, limit=1).start(2)
        assert processes_below(folder) == []
        with monkeypatch.context() as broken:
            broken.setenv("PYTHONHOME", str(tmp_path))
            with pytest.raises(
                NetworkError, match=r"The Dask worker inproc://.* has no agent: its agent has ended: .*encodings"
            ):
                DaskLauncher(client).start(1)
        with pytest.raises(KeyFileError, match="does not exist"):
            DaskLauncher(client, key_file=tmp_path / "none").start(1)
        with DaskLauncher(client) as launcher:
            (address,) = launcher.start(1)
            assert launcher.discover() == [f"{address} slots=1"]
            shutil.rmtree(folder)
            with pytest.raises(NetworkError, match=r"has no agent: its agent cannot be started: .*No such file"):
                DaskLauncher(client).start(1)
        assert processes_below(folder) == []
        assert client.submit(pow, 2, 10).result() == 1024
    with pytest.raises(NetworkError, match="its client was closed"):
        launcher.discover()


@pytest.mark.long
@covers("SEC-16")
def test_over_tls_the_key_travels_itself(tmp_path: Path) -> None:
    """To a cluster whose connections are all `tls://`; its agents have the key from a pipe, and ask for it."""
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    certificate, private = str(tmp_path / "cert.pem"), str(tmp_path / "private.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([*command, "-subj", "/CN=dask", "-keyout", private, "-out", certificate], check=True, capture_output=True)
    parts = {f"tls_{role}_{part}": path for role in ("scheduler", "worker", "client") for part, path in
             (("cert", certificate), ("key", private))}  # fmt: skip
    security = distributed.Security(tls_ca_file=certificate, require_encryption=True, **parts)
    encrypted = dask(tmp_path / "dask", 1, processes=False, protocol="tls", security=security)
    with encrypted as (_, client), DaskLauncher(client) as launcher:
        (address,) = launcher.start(1)
        (agent,) = processes_below(tmp_path / "dask")
        assert b"--key-file" not in Path(f"/proc/{agent}/cmdline").read_bytes()
        assert Path(str(launcher.key_file)).read_bytes().split()[2] not in Path(f"/proc/{agent}/environ").read_bytes()
        Request().request(NodeAssignment(key_file=launcher.key_file).add(0, address)).close()


def test_wrong_arguments() -> None:
    """Nothing is started for them."""
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    for wrong, message in [
        ({"slots": 0}, "'slots' must be a positive integer, got 0"),
        ({"limit": 0}, "'limit' must be a number of seconds > 0, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            DaskLauncher("tcp://127.0.0.1:9", **wrong)
    with pytest.raises(ValueError, match="'count' must be a positive integer, got 0"):
        DaskLauncher("tcp://127.0.0.1:9").start(0)
    with pytest.raises(TypeError, match=r"must be a blocking .* or an address, got 5"):
        DaskLauncher(5).start(1)
    with pytest.raises(NetworkError, match=r"cannot be had: .*refused"):
        DaskLauncher("tcp://127.0.0.1:9", limit=0.2).start(1)
    with pytest.raises(NetworkError, match="has not been started"):
        DaskLauncher("tcp://127.0.0.1:9").discover()

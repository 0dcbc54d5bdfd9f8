"""Keys stay where they belong: file modes, and no secret in logs, environments, command lines or tracebacks."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from network.key_files import load_key_file
from network.keys import Key
from rpc.agent.children import project_root
from rpc.support.identity import peer_key

from ..statements import covers
from .executors import Environment, Raising, Stepping, Sum
from .harness import LIMIT, AgentProcess, Cluster


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


@covers("SEC-14")
def test_modes(trio: Cluster, tmp_path: Path) -> None:
    """Key, work directory, logs, job folders and socket are their owner's alone."""
    outcome = trio.run(Sum, tmp_path)
    assert not outcome.error
    assert mode(trio.key_file) == 0o600
    with trio.request():  # agents that answer have done with tidying up after the job
        pass
    for agent in trio.agents:
        assert mode(agent.work) == 0o700
        for path in agent.work.rglob("*"):
            kind, job, *inside = *path.relative_to(agent.work).parts, ""
            if kind == "jobs" and any(inside) and not job.startswith(f"{outcome.coordinator.job}."):
                continue  # executors of other tests leave what they like, such as links
            assert mode(path) == (0o700 if path.is_dir() else 0o600), path


@covers("SEC-15")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.invalid"])
def test_no_key_off_loopback(tmp_path: Path, host: str) -> None:
    """Any address but loopback without an explicit key: exit 2, one line saying what to run."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": project_root()}
    command = [sys.executable, "-m", "rpc.agent.cli", "--port", "0", "--listen", host]
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1
    assert f"Listening on {host} needs an explicit key" in ended.stderr and "--new-key" in ended.stderr
    assert not list(tmp_path.iterdir())


@covers("SEC-15")
def test_readable_key(tmp_path: Path, own: Cluster) -> None:
    """a key that others can read is refused, with the remedy."""
    own.key_file.chmod(0o644)
    said = AgentProcess(tmp_path / "agent", own.key_file).refused()
    assert f"chmod 600 {own.key_file}" in said and len(said.splitlines()) == 1


def forms(key: Key) -> list[bytes]:
    """How a secret may show."""
    encoded = base64.b64encode(key.secret)
    return [key.secret, key.secret.hex().encode(), encoded, repr(key.secret).encode()[2:-1]]


@covers("SEC-16")
def test_no_secret_anywhere(own: Cluster, tmp_path: Path) -> None:
    """After good, failed and refused jobs no file, no environment and no command line holds a key."""
    text = own.key_file.read_text()
    agents = own.start(1, PSGD_KEY=text)
    by_pipe = AgentProcess(own.root / "by-pipe", own.key_file, "--key-stdin", PSGD_KEY=text)
    own.agents.append(by_pipe)
    assert by_pipe.process.stdin is not None
    by_pipe.process.stdin.write(text.encode() + b"\n")
    by_pipe.process.stdin.flush()
    agents.append(by_pipe.await_address())
    with own.running(Stepping, tmp_path) as coordinator:
        cluster = load_key_file(own.key_file).offered
        secrets = forms(cluster) + forms(peer_key(cluster, coordinator.job, 0, 1))
        secrets += [form for key in coordinator._messages.code_keys.values() for form in forms(key)]
        for agent in agents:
            (pid,) = agent.job_pids()
            for place in (f"{pid}/environ", f"{pid}/cmdline", f"{agent.pid}/environ", f"{agent.pid}/cmdline"):
                content = Path("/proc", place).read_bytes()
                assert not any(secret in content for secret in (*secrets, text.encode())), place
            assert b"PSGD_KEY" not in Path(f"/proc/{pid}/environ").read_bytes()
    failed = own.run(Raising, tmp_path)
    assert failed.error
    outcome = own.run(Environment, tmp_path)
    with own.request():  # agents that answer have done with tidying up after the jobs
        pass
    for environ, arguments, folder, folder_mode, umask in outcome.results.values():
        assert not {name for name in environ if "KEY" in name.upper()}
        assert environ["OMP_NUM_THREADS"] == environ["OPENBLAS_NUM_THREADS"] == "1"
        assert len(arguments) == 2 and Path(folder).is_relative_to(own.root) and folder_mode == 0o700 and umask == 0o077
    for path in [*own.root.rglob("*"), *tmp_path.rglob("*")]:
        if path.is_file() and path != own.key_file:
            content = path.read_bytes()
            assert not any(secret in content for secret in secrets), path
    details = "".join(detail for _, detail in failed.failures.values()).encode()
    assert not any(secret in details for secret in secrets)

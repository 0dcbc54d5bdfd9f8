"""The metrics port of real agents: figures before, while and after jobs run, and visitors that hold up nothing."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from network import VERSION

from .executors import Stepping, Sum
from .harness import LIMIT, AgentProcess, Cluster, wait_for
from .test_executor_restarts import run as run_with_faults

_SAMPLE = re.compile(r'(psgd_agent_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+\})? (-?[0-9][0-9.e+-]*)')
_COUNTERS = (
    *("psgd_agent_attempts_total", "psgd_agent_restarts_total", "psgd_agent_sent_bytes_total"),
    *("psgd_agent_received_bytes_total", "psgd_agent_log_lines_left_out_total"),
)
_OUTCOMES = ("aborted", "done", "failed", "left", "stopped")


def address_of(agent: AgentProcess) -> str:
    """Where it says that its metrics are."""
    return str(wait_for(lambda: re.search(r"Metrics are served at (\S+)\n", agent.console), "the address of the metrics")[1])


def figures(agent: AgentProcess) -> dict[str, float]:
    """All samples; each family has its help and type once, before its samples."""
    with urllib.request.urlopen(address_of(agent), timeout=LIMIT) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    assert text.endswith("\n")
    found: dict[str, float] = {}
    helped, family = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family == helped and kind == ("counter" if family.endswith("_total") else "gauge")
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None and sample[1] == family, line
            key = sample[1] + (sample[2] or "")
            assert key not in found
            found[key] = float(sample[3])
    return found


def ended(found: dict[str, float]) -> list[float]:
    return [found[f'psgd_agent_jobs_ended_total{{outcome="{outcome}"}}'] for outcome in _OUTCOMES]


def per_job(found: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if "{job=" in name}


def test_before_while_and_after_a_job(own: Cluster, tmp_path: Path) -> None:
    (agent,) = own.start(1, "--metrics-port", "0", "--slots", "2")
    before = figures(agent)
    python = "{}.{}".format(*sys.version_info)
    assert before[f'psgd_agent_build_info{{version="{VERSION}",python="{python}"}}'] == 1
    assert (before["psgd_agent_slots"], before["psgd_agent_slots_taken"]) == (2, 0)
    assert [before[name] for name in _COUNTERS] == [0] * 5 and ended(before) == [0] * 5 and not per_job(before)
    with own.running(Stepping, tmp_path, title="a-secret-title") as coordinator:
        own.begun(coordinator, 1)
        running = figures(agent)
        labels = f'{{job="{coordinator.job}",node="0"}}'
        assert set(per_job(running)) <= {f"psgd_agent_job_{name}_seconds{labels}" for name in ("heartbeat_age", "silence")}
        assert 0 <= running[f"psgd_agent_job_heartbeat_age_seconds{labels}"] < running["psgd_agent_uptime_seconds"]
        assert (running["psgd_agent_slots_taken"], running["psgd_agent_attempts_total"]) == (1, 1) and ended(running) == [0] * 5
        assert min(running["psgd_agent_received_bytes_total"], running["psgd_agent_sent_bytes_total"]) > 100
        with urllib.request.urlopen(address_of(agent), timeout=LIMIT) as answer:
            text = answer.read().decode()
        for word in ("secret-title", str(own.root), own.key_file.read_text().split()[-1]):
            assert word not in text
    assert not own.run(Sum, tmp_path).error
    after = wait_for(lambda: (now := figures(agent))["psgd_agent_slots_taken"] == 0 and now, "the slot to be free")
    assert ended(after) == [0, 1, 0, 0, 1] and not per_job(after)
    assert (after["psgd_agent_attempts_total"], after["psgd_agent_restarts_total"]) == (2, 0)
    assert after["psgd_agent_uptime_seconds"] > running["psgd_agent_uptime_seconds"] > before["psgd_agent_uptime_seconds"]
    for name in ("psgd_agent_sent_bytes_total", "psgd_agent_received_bytes_total"):
        assert after[name] > running[name], "the sessions of the first job have ended, and still count"


def test_restarts_and_failures(own: Cluster, tmp_path: Path) -> None:
    agents = own.start(2, "--metrics-port", "0")
    coordinator, _ = run_with_faults(own, tmp_path, [[1, 1, 0, "SIGKILL"], [1, 9, 9, "none"]], 1)
    assert coordinator.restarts == 1
    done = 'psgd_agent_jobs_ended_total{outcome="done"}'
    for node, agent in enumerate(agents):
        found = wait_for(lambda agent=agent: (now := figures(agent))[done] == 1 and now, "the last attempt to have ended")
        assert sum(ended(found)) == found["psgd_agent_attempts_total"] == found["psgd_agent_restarts_total"] + 1
        assert 2 <= found["psgd_agent_attempts_total"] <= coordinator.attempt + 1  # more where a start was given up
        assert node == 0 or found['psgd_agent_jobs_ended_total{outcome="failed"}'] == 1


def test_silent_scrapers_hold_up_nothing(own: Cluster, tmp_path: Path) -> None:
    """A hundred of them, some in the midst of a request: another is answered, and jobs run."""
    (agent,) = own.start(1, "--metrics-port", "0")
    url = urlsplit(address_of(agent))
    with contextlib.ExitStack() as held:
        for number in range(100):
            silent = held.enter_context(socket.create_connection((url.hostname, url.port), LIMIT))
            with contextlib.suppress(ConnectionError):  # it has given way
                silent.sendall(b"GET /metrics HTTP/1.1\r\n"[: number % 24])
        assert figures(agent)["psgd_agent_slots"] == 1
        assert not own.run(Sum, tmp_path).error
        assert sum(ended(figures(agent))) == 1
        assert silent.recv(1) == b"", "it was hung up on when its time was over"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address_of(agent).removesuffix("metrics"), timeout=LIMIT)
    assert "Traceback" not in agent.console


def listening(pid: int) -> set[str]:
    """Addresses, as the kernel writes them, at which a process listens over TCP."""
    files = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in files}


def test_only_with_the_option_and_only_here(own: Cluster) -> None:
    """Also of an agent that listens on all addresses; nothing but its port without the option."""
    (without,) = own.start(1)
    (with_it,) = own.start(1, "--metrics-port", "0", "--listen", "0.0.0.0")
    assert {int(each.rpartition(":")[2], 16) for each in listening(without.pid)} == {without.address.port}
    assert "Metrics" not in without.console
    port = urlsplit(address_of(with_it)).port
    assert [each for each in listening(with_it.pid) if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
    assert with_it.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("-1", "worker.py: --metrics-port must be a number from 0 to 65535, got -1."),
        ("65536", "worker.py: --metrics-port must be a number from 0 to 65535, got 65536."),
        ("taken", "Port {taken} on 127.0.0.1, for metrics, is in use, by "),
        ("web", "argument --metrics-port: must be an integer, got 'web'"),
    ],
)
def test_bad_values(own: Cluster, tmp_path: Path, value: str, said: str) -> None:
    """One sentence, and exit code 2, which `refused` asserts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        agent = AgentProcess(tmp_path, own.key_file, "--metrics-port", taken if value == "taken" else value)
        console = agent.refused()
    assert said.format(taken=taken) in console.splitlines()[-1] and "Traceback" not in console
    assert value == "web" or len(console.splitlines()) == 1
    assert not agent.announcement.exists()


@pytest.mark.ordinary_user
def test_a_port_that_is_not_for_this_user(own: Cluster, tmp_path: Path) -> None:
    """The option that named it is told."""
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text("ascii"))
    if first < 2:
        pytest.skip("All ports are for all users here.")
    refused = rf"Port {first - 1} on 127\.0\.0\.1(, for metrics,)? is refused to this user: Permission denied[.;] "
    options = ("--port", "--metrics-port")
    agents = [AgentProcess(tmp_path / option[2:], own.key_file, option, str(first - 1)) for option in options]
    for option, agent in zip(options, agents, strict=True):
        said = rf"{refused}[Cc]hoose another (port|one) with {option}, or 0 for a free one\.$"
        assert re.search(said, agent.refused(), re.MULTILINE), agent.console

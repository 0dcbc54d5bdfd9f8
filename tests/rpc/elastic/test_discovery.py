"""Hosts from functions, files and scripts; scripts really run."""

from __future__ import annotations

import itertools
import json
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from network.nodes import DEFAULT_PORT, Address
from rpc.elastic import (
    Discovery,
    DiscoveryError,
    DiscoveryFailed,
    FileDiscovery,
    FolderDiscovery,
    FunctionDiscovery,
    Host,
    HostsSeen,
    Poller,
    ScriptDiscovery,
    discovery_of,
)
from tests.proc import is_gone

from ...statements import covers

A, B = Address("a", DEFAULT_PORT), Address("b", DEFAULT_PORT)


def script(folder: Path, body: str) -> Path:
    path = folder / "discover.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


@covers("EL-17")
def test_a_script(tmp_path: Path) -> None:
    """Its lines are the hosts, blank output is none."""
    path = script(tmp_path, f"cat {tmp_path}/hosts")
    (tmp_path / "hosts").write_text("a slots=2\nb\n")
    discovery = ScriptDiscovery(path)
    assert discovery.find() == [Host(A, 2), Host(B)]
    (tmp_path / "hosts").write_text("\n")
    assert discovery.find() == []


@covers("EL-17", "FLT-17")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo a; echo no lease >&2; exit 3", r"discover.sh ended with exit code 3: no lease$"),
        ("exit 1", r"ended with exit code 1\.$"),
        ("kill -9 $$", r"ended with exit code -9"),
        ("echo a b c", r"printed what is no list of hosts\. Line 1 of the hosts: .* got 'a b c'"),
        (r"printf '\377'", r"printed what is no list of hosts\. .*utf-8"),
    ],
)
def test_a_script_that_fails(tmp_path: Path, body: str, message: str) -> None:
    """Every way to fail is told with the reason."""
    with pytest.raises(DiscoveryError, match=message):
        ScriptDiscovery(script(tmp_path, body)).find()


def test_a_script_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=r"nothing cannot be run: No such file"):
        ScriptDiscovery(tmp_path / "nothing").find()
    with pytest.raises(ValueError, match="'limit' must be a number of seconds > 0, got 0"):
        ScriptDiscovery(tmp_path, limit=0)


@covers("EL-17", "FLT-17")
@pytest.mark.slow
def test_a_script_that_hangs(tmp_path: Path) -> None:
    """After its own limit it is killed, with the processes it has started."""
    path = script(tmp_path, f"sleep 100 & echo $! > {tmp_path}/child\necho $$ > {tmp_path}/self\nwait")
    with pytest.raises(DiscoveryError, match=r"did not end within 1\.5 s and was killed"):
        ScriptDiscovery(path, limit=1.5).find()
    for name in ("child", "self"):
        pid = int((tmp_path / name).read_text())
        wait_until(lambda pid=pid: is_gone(pid))  # type: ignore[misc]


def test_a_function() -> None:
    """Conventions: lines, text or a mapping."""
    for answer in ("a slots=2\nb", ["a slots=2", "b"], {"a": 2, "b": 1}, {A: 2, B: 1}):
        assert FunctionDiscovery(lambda answer=answer: answer).find() == [Host(A, 2), Host(B)]  # type: ignore[misc]
    assert FunctionDiscovery(list).find() == []


def test_a_function_that_fails() -> None:
    def broken() -> str:
        raise KeyError("lease")

    with pytest.raises(DiscoveryError, match=r"The function .*broken failed: KeyError: 'lease'"):
        FunctionDiscovery(broken).find()
    for wrong in (5, [5], None):
        with pytest.raises(DiscoveryError, match=r"failed: TypeError: .* must be"):
            FunctionDiscovery(lambda wrong=wrong: wrong).find()  # type: ignore[misc]


def test_a_watched_file(tmp_path: Path) -> None:
    """Conventions: worker.json is read again when it has changed, however quickly, by edit or by replacement."""
    path = tmp_path / "worker.json"
    discovery = FileDiscovery(path)
    with pytest.raises(DiscoveryError, match=r"worker\.json cannot be used: .*No such file"):
        discovery.find()
    for count in range(1, 6):
        path.write_text(json.dumps({"PS": "p", "Worker": [f"a slots={count}", "b"]}))
        assert discovery.find() == [Host(A, count), Host(B)] == discovery.find()
    (tmp_path / "new").write_text('{"Worker": []}')
    os.replace(tmp_path / "new", path)
    assert discovery.find() == []
    for wrong in ("{", "[]", '{"Worker": "a"}', '{"Worker": [1]}', '{"Worker": ["a b c"]}'):
        path.write_text(wrong)
        with pytest.raises(DiscoveryError, match=r"worker\.json cannot be used"):
            discovery.find()
    path.write_text('{"Worker": ["a"]}')
    assert discovery.find() == [Host(A)]


def test_what_a_user_means(tmp_path: Path) -> None:
    """Conventions: `discovery=` takes a script, a node file, a function, or a Discovery."""
    (tmp_path / "d.sh").touch(mode=0o700)
    assert isinstance(discovery_of(tmp_path / "d.sh"), ScriptDiscovery)
    (tmp_path / "text").touch(mode=0o600)
    for wrong in ("", "nowhere", tmp_path / "text", "x" * 300, "nul\0"):
        with pytest.raises(ValueError, match=r"'discovery' must be a program that may be run, .* got '"):
            discovery_of(wrong)
    assert isinstance(discovery_of("worker.json"), FileDiscovery)
    assert isinstance(discovery_of(tmp_path), FolderDiscovery)
    assert isinstance(discovery_of(list), FunctionDiscovery)
    own = FileDiscovery("x.json")
    assert discovery_of(own) is own and isinstance(own, Discovery)
    with pytest.raises(
        TypeError, match=r"'discovery' must be the path of a script, a \.json node file or a folder, or a function, got 5"
    ):
        discovery_of(5)


@covers("EL-17")
def test_the_poller_asks_again_and_again() -> None:
    """Answers and failures arrive in turn; a failure does not end the looking."""
    answers: list[Any] = ["a", "not a host", ""]
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    asked = iter(range(1000))
    poller = Poller(FunctionDiscovery(lambda: answers[next(asked) % 3]), events.put, period=0.005)
    try:
        first, second, third, fourth = (events.get(timeout=10) for _ in range(4))
    finally:
        poller.close()
    assert first == HostsSeen((Host(A),)) == fourth
    assert isinstance(second, DiscoveryFailed) and "got 'not a host'" in second.reason
    assert third == HostsSeen(())
    assert all(thread.name != "discovery" for thread in threading.enumerate()), "nobody looks any more"


@covers("EL-17")
def test_a_discovery_of_ones_own_that_raises_anything_is_asked_again() -> None:
    """a failure is told and the next look comes, whatever the failure is."""

    class Rack:
        looks = 0

        def find(self) -> list[Host]:
            self.looks += 1
            if self.looks == 1:
                raise KeyError("rack 5")
            return [Host(A)]

        def close(self) -> None:
            pass

    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    poller = Poller(discovery_of(Rack()), events.put, period=0.005)
    try:
        failed, seen = (events.get(timeout=10) for _ in range(2))
    finally:
        poller.close()
    assert isinstance(failed, DiscoveryFailed) and failed.reason.endswith("Rack failed: KeyError: 'rack 5'")
    assert seen == HostsSeen((Host(A),))


@pytest.mark.slow
def test_looks_come_at_their_period() -> None:
    """Conventions: every 1 s by default; here less, from start to start, whatever a look takes."""
    moments: queue.SimpleQueue[float] = queue.SimpleQueue()

    def slow() -> str:
        moments.put(time.monotonic())
        threading.Event().wait(0.3)
        return ""

    poller = Poller(FunctionDiscovery(slow), lambda _: None, period=0.3)
    try:
        taken = [moments.get(timeout=10) for _ in range(5)]
    finally:
        poller.close()
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    assert sorted(gaps)[1] > 0.25 and sorted(gaps)[len(gaps) // 2] < 0.5


@covers("EL-17")
def test_a_poller_with_a_hanging_script_closes_at_once(tmp_path: Path) -> None:
    """a script that hangs stops nobody: closing kills it, and its answer is not delivered."""
    path = script(tmp_path, f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 100")
    events: list[Any] = []
    poller = Poller(ScriptDiscovery(path, limit=100), events.append)
    wait_until((tmp_path / "pid").exists)
    before = time.monotonic()
    poller.close()
    assert time.monotonic() - before < 2.0  # what closing waits for a function that hangs
    assert events == [] and is_gone(int((tmp_path / "pid").read_text()))
    with pytest.raises(DiscoveryError, match="is not run any more"):
        closed = ScriptDiscovery(path)
        closed.close()
        closed.find()


@covers("EL-17")
def test_a_function_that_hangs_stops_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It cannot be ended, so closing leaves it alone, says so, and drops what it may say later."""
    monkeypatch.setattr("rpc.elastic.discovery.CLOSE_SECONDS", 0.05)
    asked, released, answers = threading.Event(), threading.Event(), list[Any]()

    def hanging() -> str:
        asked.set()
        released.wait(20)
        return "a"

    poller = Poller(FunctionDiscovery(hanging), answers.append)
    assert asked.wait(10)
    poller.close()
    assert "Discovery has not answered within 0.05 s; it is left alone." in caplog.text
    released.set()
    poller.close()
    assert answers == []

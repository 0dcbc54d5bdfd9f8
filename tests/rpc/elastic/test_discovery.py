"""Hosts from functions, files and scripts that really run; and who looks again and again."""

from __future__ import annotations

import contextlib
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


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


@covers("EL-17", "FLT-17")
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("printf 'a slots=2\\nb\\n'", [Host(A, 2), Host(B)]),  # its lines are the hosts, blank output is none
        ("echo", []),
        ("echo a; echo no lease >&2; exit 3", r"discover.sh ended with exit code 3: no lease$"),
        ("exit 1", r"ended with exit code 1\.$"),
        ("kill -9 $$", r"ended with exit code -9"),
        ("echo a b c", r"printed what is no list of hosts\. Line 1 of the hosts: .* got 'a b c'"),
        (r"printf '\377'", r"printed what is no list of hosts\. .*utf-8"),
    ],
)
def test_a_script(tmp_path: Path, body: str, found: list[Host] | str) -> None:
    """Every way to fail is told with the reason."""
    discovery = ScriptDiscovery(script(tmp_path, body))
    if isinstance(found, list):
        assert discovery.find() == found
    else:
        with pytest.raises(DiscoveryError, match=found):
            discovery.find()


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


def broken() -> str:
    raise KeyError("lease")


def test_a_function() -> None:
    """Conventions: lines, text or a mapping."""
    for answer in ("a slots=2\nb", ["a slots=2", "b"], {"a": 2, "b": 1}, {A: 2, B: 1}):
        assert FunctionDiscovery(lambda answer=answer: answer).find() == [Host(A, 2), Host(B)]  # type: ignore[misc]
    assert FunctionDiscovery(list).find() == []
    wrong = [(lambda wrong=wrong: wrong, r"failed: TypeError: .* must be") for wrong in (5, [5], None)]
    for function, message in [
        (broken, r"The function .*broken failed: broken raised KeyError: 'lease' \(.*test_discovery\.py:\d+\)"),
        *wrong,
    ]:
        with pytest.raises(DiscoveryError, match=message):
            FunctionDiscovery(function).find()


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
    (tmp_path / "text").touch(mode=0o600)
    means = {
        tmp_path / "d.sh": ScriptDiscovery,
        "worker.json": FileDiscovery,
        tmp_path: FolderDiscovery,
        list: FunctionDiscovery,
    }
    assert {meant: type(discovery_of(meant)) for meant in means} == means
    own = FileDiscovery("x.json")
    assert discovery_of(own) is own and isinstance(own, Discovery)
    for wrong in ("", "nowhere", tmp_path / "text", "x" * 300, "nul\0"):
        with pytest.raises(ValueError, match=r"'discovery' must be a program that may be run, .* got '"):
            discovery_of(wrong)
    words = r"'discovery' must be the path of a script, a \.json node file or a folder, or a function, got 5"
    with pytest.raises(TypeError, match=words):
        discovery_of(5)
    with pytest.raises(DiscoveryError, match=r"nothing cannot be run: No such file"):
        ScriptDiscovery(tmp_path / "nothing").find()
    with pytest.raises(ValueError, match="'limit' must be a number of seconds > 0, got 0"):
        ScriptDiscovery(tmp_path, limit=0)


# ---- the poller


class Rack:
    """Somebody's own discovery, which finds or raises one after the other."""

    def __init__(self, *answers: list[Host] | Exception) -> None:
        self._answers = itertools.cycle(answers)

    def find(self) -> list[Host]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None: ...


@covers("EL-17")
def test_the_poller_asks_again_and_again() -> None:
    """Answers and failures arrive in turn; a failure does not end the looking, whatever it is."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    rack = Rack([Host(A)], DiscoveryError("no lease"), KeyError("rack 5"), [])
    with contextlib.closing(Poller(discovery_of(rack), events.put, period=0.005)):
        found = [events.get(timeout=60) for _ in range(5)]
    line = Rack.find.__code__.co_firstlineno + 3
    told = f"Rack failed: Rack.find raised KeyError: 'rack 5' ({__file__}:{line})"
    failures = [DiscoveryFailed("no lease"), DiscoveryFailed(told)]
    assert found == [HostsSeen((Host(A),)), *failures, HostsSeen(()), HostsSeen((Host(A),))]
    assert all(thread.name != "discovery" for thread in threading.enumerate()), "nobody looks any more"


@pytest.mark.slow
def test_looks_come_at_their_period() -> None:
    """Conventions: every 1 s by default; here less, from start to start, whatever a look takes."""
    moments: queue.SimpleQueue[float] = queue.SimpleQueue()

    def slow() -> str:
        moments.put(time.monotonic())
        threading.Event().wait(0.3)
        return ""

    with contextlib.closing(Poller(FunctionDiscovery(slow), lambda _: None, period=0.3)):
        taken = [moments.get(timeout=60) for _ in range(5)]
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    assert min(gaps) < 0.6, "which each would take if they were counted from the end of a look"


@covers("EL-17")
def test_a_poller_with_a_hanging_script_closes_at_once(tmp_path: Path) -> None:
    """a script that hangs stops nobody: closing kills it, and its answer is not delivered."""
    path = script(tmp_path, f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 100")
    events: list[Any] = []
    discovery = ScriptDiscovery(path, limit=100)
    poller = Poller(discovery, events.append)
    wait_until((tmp_path / "pid").exists)
    before = time.monotonic()
    poller.close()
    assert time.monotonic() - before < 2.0  # what closing waits for a function that hangs
    assert events == [] and is_gone(int((tmp_path / "pid").read_text()))
    discovery.close()
    with pytest.raises(DiscoveryError, match="is not run any more"):
        discovery.find()


@covers("EL-17")
def test_a_function_that_hangs_stops_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It cannot be ended, so closing leaves it alone, says so, and drops what it may say later."""
    monkeypatch.setattr("rpc.elastic.discovery.CLOSE_SECONDS", 0.05)
    asked, released, answers = threading.Event(), threading.Event(), list[Any]()

    def hanging() -> str:
        asked.set()
        released.wait(60)
        return "a"

    poller = Poller(FunctionDiscovery(hanging), answers.append)
    assert asked.wait(60)
    poller.close()
    assert "Discovery has not answered within 0.05 s; it is left alone." in caplog.text
    released.set()
    poller.close()
    assert answers == []

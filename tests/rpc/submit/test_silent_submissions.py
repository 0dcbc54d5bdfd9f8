"""Agents that fall silent in each phase of a submission, and nodes that are slow: the sign of life decides, not the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rpc.errors import SubmissionError
from rpc.liveness.limits import EXTRA_SECONDS, FIRST_PHASE_SECONDS

from ...statements import covers
from ..submitter_bench import bench

LONG = 3600.0  # seconds that preCommit may take: at the bandwidth that is assumed, the data would
MANY = 24  # nodes on one host: the limits of canCommit and of calls are longer than the silence that is allowed


@covers("SUB-47", "SUB-3", "SUB-8", "INV-10")
@pytest.mark.parametrize(
    ("freeze_at", "phase"),
    [
        (0.0, "canCommit"),  # before it hears the question
        ("Accepted", "canCommit"),
        ("Loaded", "canCommit"),  # it has passed on the code
        ("Prepared", "preCommit"),  # while it gets its data
        ("State", "doCommit"),  # all are ready
    ],
)
@pytest.mark.parametrize("count", [4, MANY])
def test_a_frozen_agent_ends_the_submission(
    freeze_at: str | float, phase: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within ten seconds of falling silent, however long the phase may take; it is named, and
    the others are free."""
    with bench(range(count), tmp_path, monkeypatch) as made:
        silent = made.agents[1]
        silent.freeze_at = freeze_at
        with pytest.raises(SubmissionError) as caught:
            made.submit([range(count)], LONG)
        assert silent.frozen_since is not None
        assert 7.5 <= made.clock.monotonic() - silent.frozen_since <= 10.0
        name = f"Node(1) at {made.loop.groups._com.addresses[1]}"
        assert f"{name} was lost in {phase}: its worker has given no sign of life for 8." in str(caught.value)
        assert not [agent.node for agent in made.agents.values() if agent.has_job and agent is not silent]


@covers("SUB-47")
def test_an_agent_that_freezes_during_the_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process takes data as slowly as the limit allows."""
    with bench(range(2), tmp_path, monkeypatch) as made:
        for agent in made.agents.values():
            agent.delays["Prepared"] = 1000.0
        made.agents[1].freeze_at = 100.0
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* was lost in preCommit: its worker has given no sign"):
            made.submit([range(2)], LONG)
        assert 107.5 <= made.clock.monotonic() <= 110.0


@covers("SUB-47", "SUB-11")
def test_a_parameter_server_that_runs_already_freezes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It started by itself; the workers still get their data. Its loss is known when it is due."""
    with bench([-2, 0, 1], tmp_path, monkeypatch) as made:
        for node in (0, 1):
            made.agents[node].delays["Prepared"] = 60.0
        made.agents[-2].freeze_at = 30.0
        lost: list[tuple[float, Any]] = []
        on_gone = made.loop._on_gone
        made.loop._on_gone = lambda gone: (lost.append((made.clock.monotonic(), gone)), on_gone(gone))[1]  # type: ignore[method-assign]
        made.submit([[-2], [0, 1]], LONG)
        ((moment, gone),) = lost
        assert 37.4 <= moment <= 40.0 and gone.node == -2
        assert made.loop.failures[-2][1].startswith("Node(-2) at 127.0.0.1:")


@covers("SUB-47", "INV-10")
def test_all_that_are_silent_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a host with several workers is gone."""
    with bench(range(4), tmp_path, monkeypatch) as made:
        for node in (1, 3):
            made.agents[node].freeze_at = "Prepared"
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* was lost in preCommit: .*nor has Node\(3\) at 127"):
            made.submit([range(4)], LONG)


@covers("SUB-47", "SUB-4")
@pytest.mark.parametrize(("worked", "starts"), [(0.01, True), (0.0, False)])
def test_processes_that_work_are_waited_for(
    worked: float, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interpreters that have to share few cores are given up to a minute more; those that stand still, none."""
    limit = FIRST_PHASE_SECONDS + 0.5 * 3
    with bench(range(3), tmp_path, monkeypatch) as made:
        for agent in made.agents.values():
            agent.worked, agent.delays["Loaded"] = worked, limit + 40.0
            agent.delays["Asks"] = limit + 40.1
        if starts:
            made.submit([range(3)], 1.0)
            assert limit + 40.0 <= made.clock.monotonic() <= limit + 42.0
        else:
            with pytest.raises(SubmissionError, match="did not finish canCommit in time"):
                made.submit([range(3)], 1.0)
            assert limit <= made.clock.monotonic() <= limit + 1.0


@covers("SUB-47")
def test_work_without_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that never comes to its end."""
    with bench(range(2), tmp_path, monkeypatch) as made:
        for agent in made.agents.values():
            agent.worked, agent.delays["Loaded"], agent.delays["Asks"] = 0.5, 1e6, 1e6
        with pytest.raises(SubmissionError, match="did not finish canCommit in time"):
            made.submit([range(2)], 1.0)
        limit = FIRST_PHASE_SECONDS + 0.5 * 2 + EXTRA_SECONDS
        assert limit <= made.clock.monotonic() <= limit + 2.0


@covers("SUB-47")
def test_an_agent_speaks_for_all_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with many slots starts one process after the other, and says of the first ones that they live."""
    with bench(range(MANY), tmp_path, monkeypatch) as made:
        addresses = made.loop.groups._com.addresses
        made.loop.groups._com.addresses = {node: addresses[node - node % 2] for node in addresses}
        made.agents[1].delays["Accepted"] = 12.0
        made.submit([range(MANY)], 1.0)
        assert 12.0 <= made.clock.monotonic() <= 14.0


@covers("SUB-47")
def test_a_program_that_takes_its_time_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it loads its data nobody listens; the agents are not blamed for that."""
    with bench(range(2), tmp_path, monkeypatch) as made:

        def reply(node: int, request: str) -> Any:
            made.clock.advance(100.0)
            return request

        made.submit([range(2)], LONG, reply)
        assert made.clock.monotonic() > 200.0

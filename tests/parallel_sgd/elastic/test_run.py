"""What `run` calls, in which order, and what it lets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallel_sgd.elastic import (
    HostsUpdatedInterrupt,
    HostUpdateResult,
    ObjectState,
    State,
    WorkerRemoved,
    WorkersLostError,
    run,
)
from parallel_sgd.elastic.group import Alone, Listener, current, using

from ...statements import covers


class Recording(Alone):
    """A group of one that writes down what is asked of it; `asks` is what others say to whether they need the state."""

    def __init__(self, calls: list[str], asks: bool = False) -> None:
        self.calls, self.asks = calls, asks
        self.listeners: list[Listener] = []
        self.held: list[bool] = []
        self.size, self.sequence = 1, 0

    def allreduce(self, array: Any, op: str = "mean") -> Any:
        return np.maximum(array, float(self.asks))

    def reform(self, holds: bool) -> None:
        self.calls.append("reform")
        self.held.append(holds)
        self.size += 1

    def subscribe(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self.listeners.remove(listener)


class Traced(State):
    """A state that writes down what is asked of it."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__(lambda value: value, lambda: 0)
        self.calls = calls

    def save(self) -> None:
        self.calls.append("save")

    def restore(self) -> None:
        self.calls.append("restore")

    def sync(self) -> None:
        self.calls.append("sync")

    def reset(self) -> None:
        self.calls.append("reset")


def trace(*interruptions: Exception | None, asks: bool = False) -> tuple[list[str], Recording, Callable[[], Any]]:
    """A training function that meets one interruption each time it is called."""
    calls: list[str] = []
    state, group = Traced(calls), Recording(calls, asks)
    state.register_reset_callbacks([lambda: calls.append(f"first {current().size}"), lambda: calls.append("second")])
    coming = iter(interruptions)

    @run
    def train(state: Traced, result: str, *, more: int) -> tuple[str, int]:
        calls.append("func")
        assert len(group.listeners) == 1
        interruption = next(coming, None)
        if interruption is not None:
            raise interruption
        return result, more

    def call() -> Any:
        with using(group):
            return train(state, "done", more=3)

    return calls, group, call


AFTER_RESET = ["reform", "reset", "first 2", "second"]


LOSS, CHANGE, REMOVAL = WorkersLostError("a peer"), HostsUpdatedInterrupt(), HostsUpdatedInterrupt(skip_sync=True)


@covers("EL-1", "EL-2", "EL-3", "EL-13")
@pytest.mark.parametrize(
    ("interruptions", "asks", "expected"),
    [
        ([], False, []),
        ([LOSS], False, ["restore", *AFTER_RESET, "sync", "func"]),
        ([CHANGE], False, [*AFTER_RESET, "sync", "func"]),
        ([REMOVAL], False, [*AFTER_RESET, "func"]),
        ([REMOVAL], True, [*AFTER_RESET, "sync", "func"]),  # somebody who needs the state: a newcomer, or one that saw a loss
    ],
    ids=["nothing", "loss", "change of hosts", "removal", "removal that others see otherwise"],
)
def test_the_order_of_calls(interruptions: list[Exception], asks: bool, expected: list[str]) -> None:
    """A loss goes back to the commit; callbacks come in order, with the new size; a pure removal needs no state. The value of
    the function is returned, and the listener is removed."""
    calls, group, call = trace(*interruptions, asks=asks)
    assert call() == ("done", 3)
    assert calls == ["sync", "func", *expected]
    assert group.held == [True] * len(interruptions) and group.listeners == []


@covers("EL-13", "EL-2")
def test_a_skipped_sync_is_skipped_once() -> None:
    """a loss after a removal syncs again."""
    calls, _, call = trace(REMOVAL, LOSS, CHANGE)
    call()
    assert [name for name in calls if name in ("sync", "func", "restore")] == [
        *("sync", "func", "func", "restore", "sync", "func", "sync", "func")
    ]


@covers("EL-4", "EL-1")
@pytest.mark.parametrize(
    "error", [ValueError("mine"), WorkerRemoved("a[0] has been removed"), KeyboardInterrupt(), SystemExit(3)]
)
def test_any_other_exception(error: Any) -> None:
    """It leaves unchanged, and the listener is removed all the same."""
    calls, group, call = trace(error)
    with pytest.raises(type(error)) as caught:
        call()
    assert caught.value is error
    assert calls == ["sync", "func"] and group.listeners == []


@covers("EL-2")
def test_a_loss_during_sync() -> None:
    """It is a loss like any other; a worker that never had the state says that it holds none."""
    calls: list[str] = []
    state, group = Traced(calls), Recording(calls)
    losses = [WorkersLostError(), WorkersLostError()]

    def sync() -> None:
        calls.append("sync")
        if losses:
            raise losses.pop()

    state.sync = sync  # type: ignore[method-assign]
    with using(group):
        assert run(lambda state: calls.append("func") or "done")(state) == "done"
    assert calls == ["sync", "restore", "reform", "reset", "sync", "restore", "reform", "reset", "sync", "func"]
    assert group.held == [False, False]


@covers("EL-5")
def test_commit_saves_first() -> None:
    """Save, then the check; when the check raises, the save has happened."""
    calls: list[str] = []
    state = Traced(calls)
    state.commit()
    state.on_hosts_updated(1, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt):
        state.commit()
    assert calls == ["save", "save"]


@covers("EL-13", "EL-14")
@pytest.mark.parametrize(
    ("results", "skip"), [([1], True), ([1, 1], True), ([2], False), ([3], False), ([1, 2], False), ([2, 1], False)]
)
def test_what_skips_sync(results: list[int], skip: bool) -> None:
    """Pure removals, and nothing else; several changes before one check are one interruption."""
    state = Traced([])
    for number, result in enumerate(results):
        state.on_hosts_updated(number + 1, HostUpdateResult(result))
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert caught.value.skip_sync is skip
    state.check_host_updates()


@covers("EL-14")
def test_a_notice_counts_once() -> None:
    """By its number, however often it is told, and never again."""
    state = Traced([])
    state.on_hosts_updated(4, HostUpdateResult.added)
    state.on_hosts_updated(4, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt):
        state.check_host_updates()
    state.on_hosts_updated(4, HostUpdateResult.added)
    state.on_hosts_updated(3, HostUpdateResult.removed)
    state.check_host_updates()


@covers("EL-2")
def test_reset_empties_the_queue() -> None:
    """Changes that led to the reset are done; [H] one that came too late for it is not."""
    state = Traced([])
    state.on_hosts_updated(1, HostUpdateResult.added)
    state.on_reset()
    state.check_host_updates()

    group = Recording([])
    group.sequence = 2
    with using(group):
        held = ObjectState()
        held.on_hosts_updated(2, HostUpdateResult.added)
        held.on_hosts_updated(3, HostUpdateResult.removed)
        held.on_reset()
        with pytest.raises(HostsUpdatedInterrupt) as caught:
            held.check_host_updates()
        assert caught.value.skip_sync
        held.on_hosts_updated(2, HostUpdateResult.added)  # the driver repeats what it thinks was lost
        held.check_host_updates()


def test_by_itself() -> None:
    """A program that was started by itself is a group of one, which makes all exchanges and is never interrupted."""
    state = ObjectState(total=np.zeros(2))

    @run
    def train(state: ObjectState) -> float:
        for _ in range(3):
            state.total += current().allreduce(np.ones(2))
            state.commit()
        current().barrier()
        current().reform(True)
        return float(state.total.sum())

    assert train(state) == 6.0

"""The base of all states, which must not get lost when workers come and go, and `run`, which trains on with a state.

The order of calls, after each interruption: `restore` (where workers were lost), `Group.reform`, `State.on_reset`, `State.load`
(where no worker holds the state, but it was kept), an agreement whether any worker needs the state, `State.sync` (if any does),
and the function again.
"""

from __future__ import annotations

import functools
import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np

from rpc.elastic import HostUpdateResult

from .group import Group, HostsUpdatedInterrupt, WorkersLostError, current

Notice: TypeAlias = tuple[int, HostUpdateResult]


class State(ABC):
    """The state of a training, equal on all workers after `sync`, that `run` carries from one group of workers to the next.

    A subclass says how to `save`, `restore` and `sync`.

    Args:
        bcast_object: returns rank 0's value on every worker.
        get_rank: this worker's rank at the moment.
        get_sequence: the number of the last host change that the present group takes account of. Without it a change that
            is told between two groups counts as done.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], get_sequence: Callable[[], int] | None = None
    ) -> None:
        self._bcast_object = bcast_object
        self._get_rank = get_rank
        self._get_sequence = get_sequence
        self._notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self._last_sequence = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Add functions to be called after each change of the group, with the new rank and size in force.

        They run before `sync`, to set values that depend on the number of workers, such as a learning rate.

        Args:
            callbacks: functions without arguments, called in this order.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Take note of a new group: forget the host changes that led to it, `reset`, and call the callbacks."""
        waiting = self._drain()
        # changes that the new group takes account of must not interrupt it at once
        if self._get_sequence is not None:
            self._last_sequence = max(self._last_sequence, self._get_sequence())
            for notice in waiting:
                if notice[0] > self._last_sequence:  # it came too late for the group that has just formed
                    self._notices.put(notice)
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, sequence: int, result: HostUpdateResult) -> None:
        """Take note that hosts have changed, for the next `check_host_updates`. Any thread may call this.

        Args:
            sequence: number of the change; each change counts once, however often it is told.
            result: whether hosts were added, removed, or both.
        """
        self._notices.put((sequence, HostUpdateResult(result)))

    def commit(self) -> None:
        """Call `save`, then `check_host_updates`: training cannot lose the saved state any more, even if this raises.

        Costs a copy of the state and one small exchange; a lost worker costs the batches since the last commit.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all workers alike if rank 0 was told of a host change; all must call this.

        Raises: HostsUpdatedInterrupt, WorkersLostError.
        """
        previous = last = self._last_sequence
        update = HostUpdateResult.no_update
        if self._get_rank() == 0:
            # sorted by number: notices of several threads may come in any order
            for sequence, result in sorted(self._drain()):
                if sequence > last:  # each change counts once, however often it is told
                    last, update = sequence, update | result
        # rank 0 decides for all, so that all are interrupted at the same call (EL-9)
        previous, last, kind = self._agree((previous, last, int(update)))
        self._last_sequence = last
        if last > previous:
            raise HostsUpdatedInterrupt(HostUpdateResult(kind) is HostUpdateResult.removed)

    @abstractmethod
    def save(self) -> None:
        """Keep a copy of the state."""

    @abstractmethod
    def restore(self) -> None:
        """Go back to the state that was saved last; before the first time, to that given at construction."""

    @abstractmethod
    def sync(self) -> None:
        """Take over rank 0's state, and save it."""

    def load(self, content: Any) -> None:
        """Begin with `content`, kept of a state like this one (`Group.keep`), and save it.

        Raises: TypeError for a kind of state that is not kept, ValueError for content that does not fit.
        """
        raise TypeError(f"{type(self).__name__} is no state that can begin with a checkpoint; use ObjectState or ModelState")

    def reset(self) -> None:
        """Adapt the state to a changed group, before the callbacks; does nothing unless a subclass overrides it."""
        return

    def _agree(self, decision: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return rank 0's decision, on every worker."""
        previous, last, kind = self._bcast_object(decision)
        return previous, last, kind

    def _drain(self) -> list[Notice]:
        return [self._notices.get_nowait() for _ in range(self._notices.qsize())]


_State = TypeVar("_State", bound=State)
_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


def run(func: Callable[Concatenate[_State, _Rest], _Result]) -> Callable[Concatenate[_State, _Rest], _Result]:
    """Decorate `func(state, ...)`, which trains from where `state` is and commits as it goes.

    It is called with the state of rank 0, and again whenever the group of workers has changed: after a loss with the last
    commit (WorkersLostError), after a change of hosts with everything that was done (HostsUpdatedInterrupt). Its result is
    returned; any other exception ends this worker.

    >>> @run
    ... def train(state, batches):
    ...     while state.batch < batches:
    ...         state.batch += 1
    ...         state.commit()
    ...     return state.batch
    >>> train(ObjectState(batch=0), 3)
    3
    """

    @functools.wraps(func)
    def wrapper(state: _State, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> _Result:
        group = current()
        group.subscribe(state.on_hosts_updated)
        # EL-1: removed in any case
        try:
            return _carry_on(group, state, lambda: func(state, *args, **kwargs))
        finally:
            group.unsubscribe(state.on_hosts_updated)

    return wrapper


def _carry_on(group: Group, state: State, train: Callable[[], _Result]) -> _Result:
    interrupted = holds = skip_sync = False
    while True:
        try:
            if interrupted:
                # in this order: the new rank and size, then callbacks, then the state
                group.reform(holds)
                state.on_reset()
            # where no worker holds the state: that of the file, which rank 0 passes on in `sync`
            if (kept := group.take_kept()) is not None:
                state.load(kept)
            if _anybody_needs(group, not skip_sync):
                state.sync()
            holds = True
            return train()
        except WorkersLostError:
            state.restore()
            # after a loss workers go back to their commits, so the state is exchanged again
            skip_sync = False
        except HostsUpdatedInterrupt as update:
            skip_sync = update.skip_sync
        interrupted = True


def _anybody_needs(group: Group, need: bool) -> bool:
    """Tell whether any worker of the group needs the state.

    Each worker knows only its own reason to skip: when hosts were removed, others may have come until the group formed, and
    others may have lost a peer in the very exchange that told this one of the removal.
    """
    answer: Any = group.allreduce(np.array([float(need)]), "max")
    return bool(answer[0])

"""`run`: trains on while workers come and go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from .errors import HostsUpdatedInterrupt, WorkersLostError
from .group import Group, current
from .state import State

_State = TypeVar("_State", bound=State)
_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


def run(func: Callable[Concatenate[_State, _Rest], _Result]) -> Callable[Concatenate[_State, _Rest], _Result]:
    """Decorate `func(state, ...)`, which trains from where `state` is and commits as it goes.

    It is called with the state of rank 0, and again whenever the group of workers has changed: after a loss with the last
    commit (WorkersLostError), after a change of hosts with everything that was done (HostsUpdatedInterrupt). What it returns
    is returned; any other exception ends this worker.

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
                group.reform(holds)
                state.on_reset()
            if (kept := group.take_kept()) is not None:
                state.load(kept)
            if _anybody_needs(group, not skip_sync):
                state.sync()
            holds = True
            return train()
        except WorkersLostError:
            state.restore()
            skip_sync = False
        except HostsUpdatedInterrupt as update:
            skip_sync = update.skip_sync
        interrupted = True


def _anybody_needs(group: Group, need: bool) -> bool:
    """Whether any worker of the group needs the state.

    Each worker knows only its own reason to skip: when hosts were removed, others may have come until the group formed, and
    others may have lost a peer in the very exchange that told this one of the removal.
    """
    answer: Any = group.allreduce(np.array([float(need)]), "max")
    return bool(answer[0])

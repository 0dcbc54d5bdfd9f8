"""Subscribers of the events of an agent's jobs, from attempt to attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from network.session import Session

from ..messages import Operation


class _Subscription(NamedTuple):
    session: Session
    job: str
    node: int | None


class Subscribers:
    """Subscribers of the events of jobs. A session that names a node that is here is told of that node alone, any other of all.

    `is_here(job, node)` says whether the newest attempt has that node here: after a job has been started again with fewer
    nodes, the same agent may go by another number.
    """

    def __init__(self, is_here: Callable[[str, int], bool]) -> None:
        self._is_here = is_here
        self._subscriptions: list[_Subscription] = []

    def add(self, session: Session, job: str, node: int | None) -> None:
        """Tell `session` of `job` from now on, of `node` alone if it is here; once is enough."""
        subscription = _Subscription(session, job, node)
        if subscription not in self._subscriptions:
            self._subscriptions.append(subscription)

    def has(self, session: Session) -> bool:
        """Tell if `session` watches a job, as every session does that has started or drives one."""
        return any(subscription.session is session for subscription in self._subscriptions)

    def forget(self, session: Session) -> None:
        self._subscriptions = [subscription for subscription in self._subscriptions if subscription.session is not session]

    def tell(self, job: str, node: int, operation: Operation) -> None:
        for subscription in self._subscriptions:
            others = subscription.node is None or subscription.node == node or not self._is_here(job, subscription.node)
            if subscription.job == job and others:
                deliver(subscription.session, operation)


MOST_PENDING = 64 << 20
"""Bytes in line for one session; a subscriber with more does not read, and is let go."""


def deliver(session: Session, operation: Operation) -> None:
    """Queue `operation` and send the bytes that go out at once; a session that is gone or does not read gets nothing."""
    if session.lost is not None:
        return
    if session.pending_bytes > MOST_PENDING:
        session.close()
        return
    session.queue(operation.to_value())
    session.send()

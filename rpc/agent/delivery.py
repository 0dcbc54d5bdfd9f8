"""Telling a submitter something, without ever waiting for it."""

from __future__ import annotations

from network.session import Session

from ..messages import Operation

MOST_PENDING = 64 << 20
"""Bytes in line for one session; who lets more pile up does not read, and is let go."""


def deliver(session: Session, operation: Operation) -> None:
    """Queue `operation` and send what goes out at once; a session that is gone or does not read gets nothing."""
    if session.lost is not None:
        return
    if session.pending_bytes > MOST_PENDING:
        session.close()
        return
    session.queue(operation.to_value())
    session.send()

"""The thread in which a worker talks with the driver of its job."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from network.controller import Controller
from parallel_sgd.elastic import WorkerRemoved
from parallel_sgd.elastic.driver_link import DriverLink
from parallel_sgd.elastic.messages import HostsChanged, Noted, Removed, Void
from rpc.elastic import HostUpdateResult
from rpc.errors import JobAborted
from tests.network.wires import Talk, talk

LIMIT = 100.0


@contextlib.contextmanager
def linked() -> Iterator[tuple[DriverLink, Talk]]:
    """A link, and the session of which the driver has the other end."""
    with talk("unix") as end, contextlib.closing(Controller(0, {-1: end.client})) as controller:
        link = DriverLink(controller, end.client)
        try:
            yield link, end
        finally:
            link.close()
            end.server.close()


def heard(end: Talk) -> object:
    """What the driver hears next, within the limit."""
    deadline = time.monotonic() + LIMIT
    while (message := end.server.take()) is None:
        assert time.monotonic() < deadline, "the driver hears nothing"
        end.wait([end.server.link], [], deadline - time.monotonic())
        end.server.receive()
    return message.value


def test_what_a_worker_says_goes_out_while_the_driver_is_silent() -> None:
    """Again and again, since the link may just be awake."""
    with linked() as (link, end):
        for number in range(1, 30):
            link.say(Noted(number))
            assert heard(end) == Noted(number).to_value()


def test_the_driver_s_orders_come_in_their_order_until_there_is_no_place() -> None:
    orders = [Void(1), Void(2), Void(3)]
    with linked() as (link, end):
        for order in orders:
            end.server.queue(order.to_value())
        end.server.send()
        assert [link.await_order() for _ in orders] == orders
        end.server.queue(Removed("There is no slot for you.").to_value())
        end.server.send()
        for ask in (link.await_order, link.check):
            with pytest.raises(WorkerRemoved, match="There is no slot for you"):
                ask()


def test_changes_of_hosts_are_told_and_noted() -> None:
    told: list[object] = []
    with linked() as (link, end):
        link.subscribe(lambda *change: told.append(change))
        end.server.queue(HostsChanged(4, 2).to_value())
        end.server.send()
        assert heard(end) == Noted(4).to_value()
    assert told == [(4, HostUpdateResult.added)]


def test_a_driver_that_is_gone_ends_the_worker() -> None:
    with linked() as (link, end):
        end.server.close()
        with pytest.raises(JobAborted, match="The driver of the job is gone"):
            link.await_end()

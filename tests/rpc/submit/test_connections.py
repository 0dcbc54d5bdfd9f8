"""What the nodes of a job are told, and with which keys."""

from __future__ import annotations

import pytest

from network.errors import ProtocolError
from network.keys import new_key
from network.nodes import Address
from rpc.identity import code_key, peer_key, peer_keys
from rpc.messages import Accepted
from rpc.shipping import pack
from rpc.submit.connections import JobMessages
from tests.rpc.orders import question

from ...statements import covers

ADDRESSES = {0: Address("here", 1), 1: Address("here", 2), 2: Address("there", 1)}


@covers("SEC-11")
def test_an_agent_speaks_for_its_own_node_only() -> None:
    """The id comes from the session, not from the message."""
    orders = JobMessages(question(), ADDRESSES, new_key())
    orders.note(1, Accepted("job", 1, "host", "/path", "1.0.0"))
    for claimed in (0, 77):
        with pytest.raises(ProtocolError, match=f"agent of node 1 accepted in the name of node {claimed}"):
            orders.note(1, Accepted("job", claimed, "host", "/evil", "1.0.0"))
    assert orders.load(pack({})).roster == {1: ["here:2", "host", "/path"]}


@covers("SEC-16")
def test_keys_are_derived_on_both_sides_and_differ() -> None:
    """The keys of a job never travel; each opens one thing."""
    cluster = new_key()
    orders = JobMessages(question(), ADDRESSES, cluster)
    assert orders.code_keys[1] == code_key(cluster, "job", 1)
    rows = {node: peer_keys(cluster, "job", node, ADDRESSES) for node in ADDRESSES}
    assert all(rows[one][other] == rows[other][one] and one not in rows[one] for one in rows for other in rows[one])
    pairs = [rows[0][1], rows[0][2], rows[1][2], peer_key(cluster, "other", 0, 1), peer_key(new_key(), "job", 0, 1)]
    keys = [cluster, *pairs, *orders.code_keys.values(), peer_key(cluster, "job", -2, 1)]
    assert len({key.secret for key in keys}) == len(keys)
    order = orders.can_commit(0, [0, 1, 2], 10.0)
    assert not any(key.secret in str(order.to_value()).encode("latin-1", "ignore") for key in keys)


@covers("SEC-21")
def test_every_node_of_the_job_is_named_to_each_agent() -> None:
    """The group, the nodes of groups that come before or after it, and those that others have submitted."""
    orders = JobMessages(question(), ADDRESSES, new_key(), others=[7, -2])
    order = orders.can_commit(1, [1, 2], 10.0)
    assert (order.group, order.others) == ([1, 2], [-2, 0, 7])


def test_jobs_on_a_host_are_counted() -> None:
    """`blas_threads='auto'` divides the cores of a host by the nodes of the job there."""
    orders = JobMessages(question(blas_threads=0), ADDRESSES, new_key())
    assert [orders.can_commit(node, [0, 1, 2], 10.0).jobs_on_host for node in ADDRESSES] == [2, 2, 1]

"""Addresses and assignments: what is understood, what is refused, and that printing and reading agree."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.nodes import DEFAULT_PORT, Address, NodeAssignment, is_loopback

names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
literals = st.ip_addresses().map(str)
ports = st.integers(0, 65535)


@given(names | literals, ports)
def test_what_is_printed_is_read_back(host: str, port: int) -> None:
    address = Address(host, port)
    assert Address.parse(str(address)) == address
    assert Address.parse(f"  {address} ") == address


@given(names | literals)
def test_without_a_port_it_is_the_default(host: str) -> None:
    assert Address.parse(host) == Address(host, DEFAULT_PORT)
    assert Address.parse(host, 7) == Address(host, 7)


@given(st.ip_addresses(v=6).map(str))
def test_ipv6_may_stand_in_brackets(host: str) -> None:
    assert Address.parse(f"[{host}]") == Address(host, DEFAULT_PORT)


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        address = Address.parse(text)
        assert address.host
        assert 0 <= address.port <= 65535
        assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be 'host' or 'host:port', got ''"),
        ("   ", "must be 'host' or 'host:port'"),
        (":80", "must be 'host' or 'host:port', got ':80'"),
        ("a b", "must be 'host' or 'host:port'"),
        ("http://host", "must be 'host' or 'host:port'|port of an address"),
        ("host/path", "must be 'host' or 'host:port'"),
        ("host\0", "must be 'host' or 'host:port'"),
        ("host\x1b[2J", "must be 'host' or 'host:port'"),
        ("host:", "port of an address must be a number from 0 to 65535, got 'host:'"),
        ("host:x", "port of an address must be a number"),
        ("host:-1", "port of an address must be a number"),
        ("host:65536", "port of an address must be a number from 0 to 65535, got 'host:65536'"),
        ("host:٣", "port of an address must be a number"),
        ("host:" + "9" * 5000, "port of an address must be a number"),
        ("a:b:c", "must be an IPv6 address, got 'a:b:c'"),
        ("::1:99999", "must be an IPv6 address"),
        ("[::1", r"written '\[address\]:port'"),
        ("[::1]80", r"written '\[address\]:port'"),
        ("[::1]:", "port of an address must be a number"),
        ("[host]:80", r"written '\[address\]:port'"),
    ],
)
def test_what_is_no_address_is_shown(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Address.parse(text)


@given(st.ip_addresses())
def test_only_what_cannot_leave_the_machine_is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    mapped = getattr(address, "ipv4_mapped", None) or address
    assert is_loopback(str(address)) == (mapped in ipaddress.ip_network("127.0.0.0/8" if mapped.version == 4 else "::1/128"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.0.1", False),
        ("localhost.example.org", False),
        ("127.1", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_assignment_keeps_its_order_and_knows_workers_and_parameter_server() -> None:
    nodes = NodeAssignment().add(1, "b:2").add(0, Address("a", 1)).add(-2, "c")
    assert list(nodes) == [1, 0, -2]
    assert dict(nodes.items()) == {1: Address("b", 2), 0: Address("a", 1), -2: Address("c", DEFAULT_PORT)}
    assert nodes.worker_ids == [0, 1]
    assert nodes.has_parameter_server
    assert not NodeAssignment().has_parameter_server
    assert len(nodes) == 3
    assert nodes[0] == ("a", 1)
    assert repr(nodes) == "NodeAssignment(1: b:2, 0: a:1, -2: c:15387)"


@pytest.mark.parametrize("node_id", [-1, -3, 1.0, "0", True, None])
def test_illegal_node_ids_are_shown(node_id: object) -> None:
    with pytest.raises(ValueError, match="A node id must be 0 or more, or -2 for the parameter server, got"):
        NodeAssignment().add(node_id, "host")  # type: ignore[arg-type]


def test_an_id_is_given_once() -> None:
    with pytest.raises(ValueError, match="Node 0 already has the address a:15387"):
        NodeAssignment().add(0, "a").add(0, "b")

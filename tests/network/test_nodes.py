"""Addresses and assignments: what is understood, what is refused, and that printing and reading agree."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.nodes import DEFAULT_PORT, Address, NodeAssignment, is_loopback

names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)


@given(names | st.ip_addresses().map(str), st.integers(0, 65535), st.ip_addresses(v=6).map(str))
def test_what_is_printed_is_read_back_and_without_a_port_it_is_the_default(host: str, port: int, bracketed: str) -> None:
    address = Address(host, port)
    assert Address.parse(str(address)) == Address.parse(f"  {address} ") == address
    assert (Address.parse(host), Address.parse(host, 7)) == (Address(host, DEFAULT_PORT), Address(host, 7))
    assert Address.parse(f"[{bracketed}]") == Address(bracketed, DEFAULT_PORT)


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        address = Address.parse(text)
        assert address.host and 0 <= address.port <= 65535
        assert Address.parse(str(address)) == address


FORM = "must be 'host' or 'host:port'"
PORT = "The port of an address must be a number from 0 to 65535"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["", "   ", ":80", "a b", "host/path", "host\0", "host\x1b[2J"], FORM),
        (["http://host"], f"{FORM}|port of an address"),
        (["host:", "host:x", "host:-1", "host:65536", "host:٣", "host:" + "9" * 5000, "[::1]:"], PORT),
        (["a:b:c", "::1:99999"], "must be an IPv6 address"),
        (["[::1", "[::1]80", "[host]:80"], r"written '\[address\]:port'"),
    ],
)
def test_what_is_no_address_is_shown(texts: list[str], message: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=message) as refused:
            Address.parse(text)
        assert str(refused.value).endswith(f", got {text!r}.")


@given(st.ip_addresses())
def test_only_what_cannot_leave_the_machine_is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    mapped = getattr(address, "ipv4_mapped", None) or address
    assert is_loopback(str(address)) == (mapped in ipaddress.ip_network("127.0.0.0/8" if mapped.version == 4 else "::1/128"))


def test_loopback() -> None:
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "::1%lo", "::ffff:127.0.0.1"):
        assert is_loopback(host) is True
    for host in ("0.0.0.0", "::", "", "192.168.0.1", "localhost.example.org", "127.1"):
        assert is_loopback(host) is False


def test_an_assignment_keeps_its_order_and_knows_workers_and_parameter_server() -> None:
    nodes = NodeAssignment().add(1, "b:2").add(0, Address("a", 1)).add(-2, "c")
    assert list(nodes) == [1, 0, -2] and len(nodes) == 3
    assert dict(nodes.items()) == {1: Address("b", 2), 0: Address("a", 1), -2: Address("c", DEFAULT_PORT)}
    assert nodes.worker_ids == [0, 1] and nodes[0] == ("a", 1)
    assert nodes.has_parameter_server and not NodeAssignment().has_parameter_server
    assert repr(nodes) == "NodeAssignment(1: b:2, 0: a:1, -2: c:15387)"
    for node_id in (-1, -3, 1.0, "0", True, None):
        with pytest.raises(ValueError, match="A node id must be 0 or more, or -2 for the parameter server, got"):
            nodes.add(node_id, "host")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Node 0 already has the address a:1"):
        nodes.add(0, "b")

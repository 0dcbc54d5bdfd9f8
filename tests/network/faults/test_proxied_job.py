"""Jobs of real agents whose peers talk through the proxy: over TCP, though all are on one host, as the port is the proxy's.

Their frames are sealed, so what the proxy alters is noticed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from network.faults.proxy import Proxy, Route
from network.hello import Hello
from network.nodes import NodeAssignment
from network.wire import Kind, pack
from parallel_sgd import JobResult
from tests.processes.harness import Cluster, cluster
from tests.processes.training.jobs import here, line_job, only_weights

from ...statements import covers

pytestmark = pytest.mark.processes
FLIPPED = 2000  # a byte of a connection, far behind its handshake


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("far")) as made:
        made.start(3)
        yield made


def from_node_2(hello: Hello) -> bool:
    """Whether the job process of node 2 calls; the higher id calls the lower one."""
    return hello.role == "peer" and hello.caps.get("node") == 2


def run(
    agents: Cluster,
    folder: Path,
    epochs: int = 1,
    delay: float = 0.0,
    flip: int | None = None,
    **further: Any,
) -> tuple[JobResult, Route, float]:
    """A job of three workers; the route of what node 2 (there) and node 0 (back) send each other; the seconds it took."""
    with Proxy() as proxy:
        nodes, routes = NodeAssignment(key_file=agents.key_file), []
        for node, agent in enumerate(agents.agents):
            routes.append(proxy.route(agent.address, selects=from_node_2))
            nodes.add(node, str(routes[-1].address))
        routes[0].there.delay(delay)
        if flip is not None:
            routes[0].there.flip(flip)
        settings: dict[str, Any] = {"epoch": epochs, "block_size": 2, "directory": folder, **further}
        start = time.monotonic()
        result = line_job(18).parallel(nodes, **settings)
        return result, routes[0], time.monotonic() - start


def sent(result: JobResult, node: int, peer: int) -> int:
    """Bytes of the packets on one link, protocol included, by the books of the sender."""
    return sum(entry.wire for entry in result.accounts[node] if entry.peer == peer and entry.direction == "sent")


@pytest.mark.long
@covers("SUB-22", "FLT-9")
def test_a_late_link_changes_no_weight(agents: Cluster, tmp_path: Path) -> None:
    """Three workers, three batches, one link delayed by 0.5 s: the same bits, later."""
    plain, route, _ = run(agents, tmp_path / "plain")
    assert not route.counts and route.there.passed
    late, route, seconds = run(agents, tmp_path / "late", delay=0.5)
    assert only_weights(late) == only_weights(plain)
    assert route.there.counts["delay"] >= 3 and not route.back.counts and seconds >= 1.5


@pytest.mark.slow
@covers("FLT-11", "SEC-7")
@pytest.mark.long
def test_a_flipped_bit_reaches_no_weight(agents: Cluster, tmp_path: Path) -> None:
    """a bit flips on the way from node 2 to node 0 in the midst of a job: the connection ends there, the job
    starts again, and its weights are those of a calm run."""
    plain = here(line_job(18), 3, tmp_path / "plain", epoch=16, block_size=2)
    mended, route, _ = run(agents, tmp_path / "flipped", epochs=16, flip=FLIPPED, on_failure="restart")
    assert route.there.counts["flip"] == 1
    assert (mended.restarts, only_weights(mended)) == (1, only_weights(plain))


@covers("SUB-40")
def test_the_books_agree_with_the_proxy(agents: Cluster, tmp_path: Path) -> None:
    """What a longer job sends more on a link is, to the byte, what the proxy has seen more.

    Who has heard the other's farewell says none, so that this one frame comes by in one direction or in both.
    """
    farewell = pack(Kind.BYE, (), None, True).overhead
    short, short_route, _ = run(agents, tmp_path / "short", epochs=1)
    long, long_route, _ = run(agents, tmp_path / "long", epochs=5)
    for node, peer, there in ((2, 0, True), (0, 2, False)):
        shapes = [route.there if there else route.back for route in (short_route, long_route)]
        more = sent(long, node, peer) - sent(short, node, peer)
        assert {entry.transport for entry in long.accounts[node]} == {"tcp"}
        assert more > 500 and shapes[1].passed - shapes[0].passed - more in (-farewell, 0, farewell)

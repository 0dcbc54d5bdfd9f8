"""The group of an elastic job over real sessions, and what its waits show the failure detector."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from network.controller import WAIT_SECONDS, Controller
from network.testing import VirtualClock
from parallel_sgd.elastic.messages import Round
from parallel_sgd.elastic.worker import JobGroup
from rpc import Communication
from rpc.job.peers import PeerConnector, PendingPeers
from rpc.liveness.limits import Limits
from rpc.liveness.recorder import Reader, Recorder, make_memory
from rpc.liveness.stall_detector import Signs, StallDetector
from tests.network.test_controller import Background
from tests.network.wires import talk

from ...statements import covers
from .test_driver_link import linked

LIMIT = 20.0
PLACE = ["127.0.0.1:9", "a host", ""]
WORK = 5.0  # seconds before the wait


def communication(controller: Controller, size: int) -> Communication:
    return Communication(controller, range(size), Path(), Path(), lambda *_: None)


@covers("EL-27", "FD-2")
def test_a_wait_counts_from_its_beginning() -> None:
    """Else a worker that begins to wait late would seem to have waited all the time, and with it a round to stand still. The
    clock of the recorder moves by `WORK` and by the length of each slice of the wait."""
    memory, clock, answer = make_memory(), VirtualClock(100.0), threading.Event()
    recorder = Recorder(memory, clock.monotonic)
    detector = StallDetector(Limits(), clock.monotonic())
    waiting: list[float] = []  # as the agent would tell it after each slice that brings nothing

    def resumes(moved: bool) -> None:
        clock.advance(WAIT_SECONDS)
        recorder.resumes(moved)
        now = clock.monotonic()
        detector.handle(Signs(*reader.signs(now)), now)
        if not moved:
            waiting.append(detector.waiting(now))
        if len(waiting) == 2:
            answer.set()

    with (
        contextlib.closing(Reader(memory)) as reader,
        contextlib.closing(recorder),
        linked() as (link, driver),
        talk("unix") as wire,
        Controller(0, {}) as own,
        Controller(1, {0: wire.client}) as peer,
    ):
        pending = PendingPeers()
        assert pending.arrive(0, 1, wire.server)
        connector = PeerConnector("job", 0, {}, PLACE, pending)
        group = JobGroup(communication(own, 1), connector, link, recorder.waits, resumes, watched=False, keep_every=None)
        driver.server.queue(Round(0, 0, [0, 1], [PLACE, PLACE]).to_value())
        driver.server.send()
        group.join()
        clock.advance(WORK)

        def come_late() -> bool:
            in_time = answer.wait(LIMIT)
            communication(peer, 2).barrier(LIMIT)
            return in_time

        late = Background(come_late)
        group.barrier()
        assert late.result(), "the wait showed nothing"
        group.leave(graceful=False)
    assert waiting[:2] == [WAIT_SECONDS, 2 * WAIT_SECONDS]

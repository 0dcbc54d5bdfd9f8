"""Peers that do not answer, and codecs that break: when the worker gives up, what it says, and that everything ends."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed, JobResult
from parallel_sgd.codec import BlockWeight, Codec, DummyCodec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from rpc import SubmissionError
from tests.processes.harness import wait_for
from tests.processes.training.jobs import assert_serves, here, line_job, log_of, only_weights, some

from ...stated_time import in_time
from ...statements import covers

TIMEOUT = 0.2  # seconds
EARLY, LATE = 0.05, 3.0  # how much too early and too late still counts; the machine may be loaded


class Later(Codec):
    """Where the job names a file, worker 0 begins when worker 1 has made it, at its end: who waits is no matter of time."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if self.node_id == 0 and (left := GlobalSettings.get_params("left")):
            wait_for(Path(left).exists, "worker 1 to end")
        return super().update_blocks(block_weight)

    def dispose(self) -> None:
        if self.node_id == 1 and (left := GlobalSettings.get_params("left")):
            Path(left).touch()
        super().dispose()


class Quiet(Codec):
    """Both wait for the other's block; nobody sends any. Tells when it was asked for a rescue, and when it all ended."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.since = 0.0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if self.node_id == 1 and GlobalSettings.get_params("left"):
            self.set_result(block_weight.content)

    def receive_blocks(self, content: Any) -> None:
        pass

    def is_done(self) -> bool:
        self.since = self.since or time.monotonic()
        return super().is_done()

    def do_something_to_save_yourself(self) -> Any:
        self.record(f"rescue after {time.monotonic() - self.since:.3f} s")
        return netEncapsulation(1 - self.node_id, "hello?") if GlobalSettings.get_params("rescue") else None

    def dispose(self) -> None:
        if self.since:
            self.record(f"end after {time.monotonic() - self.since:.3f} s")


class Waiting(Later, Quiet):
    pass


def fail(agents: LocalNodes, directory: Path, codec: Any, count: int = 2, **settings: Any) -> JobFailed:
    settings = {"epoch": 1, "block_size": 4, "ssgd_timeout_limit": 1000 * TIMEOUT, **settings}
    with pytest.raises(JobFailed) as info:
        line_job().parallel(some(agents, count), codec=codec, directory=directory, **settings)
    return info.value


def moments(failure: JobFailed, node: int, what: str) -> list[float]:
    return [float(seconds) for seconds in re.findall(rf"{what} after ([\d.]+) s", log_of(failure.files, node))]


@covers("SUB-24", "SUB-25")
@pytest.mark.alone
@pytest.mark.parametrize(("rescue", "periods", "said"), [(0, 1, "retry not available"), (1, 2, "the retry did not help")])
def test_when_a_job_without_answers_ends(agents: LocalNodes, tmp_path: Path, rescue: int, periods: int, said: str) -> None:
    """The codec is asked once. Where it has nothing, the job ends after T, and the message names what is missing; packets buy
    one more period."""
    failure = fail(agents, tmp_path, {0: Waiting, 1: DummyCodec}, codec_extra_parameters={"rescue": rescue})
    said_by = [node for node in (0, 1) if said in failure.failures[node][1]]
    assert said_by
    for node in said_by:
        (asked,), (end,) = moments(failure, node, "rescue"), moments(failure, node, "end")
        assert TIMEOUT - EARLY <= asked <= end and periods * TIMEOUT - EARLY <= end
        assert rescue or re.search(
            r"TimeoutError: Time out while getting result, retry not available\. Waited [\d.]+ s for "
            rf"variable 0 \(dense_1/kernel\) of epoch 1, batch 1: nothing came from node\(s\) {1 - node}"
            r"(; nor has Waiting sent anything from here)?\.",
            failure.failures[node][1],
        )
    if not rescue:
        assert next(iter(failure.failures)) in said_by, "the first failure named must be the cause"
        assert "Time out while getting result, retry not available" in str(failure)
    for node in said_by:
        in_time(moments(failure, node, "rescue")[0], TIMEOUT + LATE)
        in_time(moments(failure, node, "end")[0], periods * (TIMEOUT + LATE))


def test_a_peer_that_left_is_not_waited_for(agents: LocalNodes, tmp_path: Path) -> None:
    """Worker 1 finishes alone and ends; worker 0 gets nothing and says so within T."""
    failure = fail(agents, tmp_path, {0: Waiting, 1: DummyCodec}, codec_extra_parameters={"left": str(tmp_path / "left")})
    assert list(failure.failures) == [0]
    assert "Time out while getting result" in failure.failures[0][1]


class Unspeaking(Plain):
    """Worker 1 needs nobody and never speaks, not even for a rescue."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        if self.node_id == 0:
            return super().update_blocks(block_weight)
        self.set_result(block_weight.content)
        return None

    def receive_blocks(self, content: Any) -> None:
        if self.node_id == 0:
            super().receive_blocks(content)

    def receive_late(self, content: Any) -> None:
        pass

    def do_something_to_save_yourself(self) -> Any:
        return super().do_something_to_save_yourself() if self.node_id == 0 else None


class Mute(Later, Unspeaking):
    pass


@covers("SUB-26")
def test_the_missing_blocks_are_named(agents: LocalNodes, tmp_path: Path) -> None:
    """Variable, batch, blocks and nodes."""
    failure = fail(agents, tmp_path, Mute, block_size=12, codec_extra_parameters={"left": str(tmp_path / "left")})
    assert list(failure.failures) == [0]
    assert re.search(  # worker 1 may have left by the time of the rescue
        r"Node\(0\) failed: TimeoutError: Time out while getting result, (retry not available|the retry did not help)\. "
        r"Waited [\d.]+ s for variable 1 \(dense_1/bias\) of epoch 1, batch 1: missing block\(s\) 1 of node\(s\) 1\.$",
        str(failure),
    )


class Withholding(Plain):
    """Sends nothing until it is asked to save itself; returns its packets in another form in each batch."""

    def update_blocks(self, block_weight: BlockWeight) -> None:
        super().update_blocks(block_weight)

    def do_something_to_save_yourself(self) -> Any:
        packets = super().do_something_to_save_yourself()
        form = GlobalSettings.current().step[1]
        if packets is None or form == 0:
            return packets  # a generator
        (packet,) = packets
        return packet if form == 1 else [packet]


@covers("SUB-26")
def test_a_rescue_saves_the_batch(agents: LocalNodes, tmp_path: Path) -> None:
    """All forms of packets work; they count for their batch, so the weights are as if nothing had happened."""
    settings: dict[str, Any] = {"epoch": 1, "block_size": 4}
    waits = {**settings, "codec": Withholding, "ssgd_timeout_limit": 1500}  # twice that for a peer that stands still meanwhile
    saved: JobResult = line_job().parallel(some(agents, 2), directory=tmp_path, **waits)
    plain = here(line_job(), 2, tmp_path / "here", codec=Plain, **settings)
    assert only_weights(saved) == only_weights(plain)


class Broken(Plain):
    """Worker 1 cannot read what it gets after a while."""

    received = 0

    def receive_blocks(self, content: Any) -> Any:
        self.received += 1
        if self.node_id == 1 and self.received == 600:
            raise ArithmeticError("no such quantum")
        return super().receive_blocks(content)


@pytest.mark.long
@covers("SUB-27", "SUB-16")
def test_an_exception_in_the_receive_path_ends_the_job_everywhere(agents: LocalNodes, tmp_path: Path) -> None:
    """On all nodes, with that traceback, once, without waiting for the time-out."""
    start = time.monotonic()
    failure = fail(agents, tmp_path, Broken, count=3, block_size=2, epoch=500, ssgd_timeout_limit=60_000)
    assert time.monotonic() - start < 60
    assert sorted(failure.failures) == [0, 1, 2]
    assert next(iter(failure.failures)) == 1, "the first failure named must be the cause"
    state, detail = failure.failures[1]
    assert state == "failed"
    assert "Traceback" in detail and "in receive_blocks" in detail
    place = r"\(.*test_time_outs\.py:\d+\) for a packet of node [02], "
    told = rf"Broken\.receive_blocks raised ArithmeticError: no such quantum {place}"
    assert re.match(told, detail.rstrip().splitlines()[-1])
    assert re.search(rf"Node\(1\) failed: {told}", str(failure))
    assert all("no such quantum" not in failure.failures[node][1] for node in (0, 2))
    assert "no such quantum" in log_of(failure.files, 1)
    assert_serves(agents, 3, tmp_path)


class Talkative(Codec):
    """Returns what is no packet."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return [block_weight.content]

    def receive_blocks(self, content: Any) -> None:
        pass


class Lonely(Plain):
    """Sends what cannot travel."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return netEncapsulation(1 - self.node_id, {1, 2})


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (Talkative, "Talkative must return None, a netEncapsulation or an iterable of them, got ndarray"),
        (Lonely, "set"),
    ],
)
@pytest.mark.share(2)
def test_what_a_codec_may_not_return_is_named(agents: LocalNodes, tmp_path: Path, codec: type[Codec], message: str) -> None:
    with pytest.raises((JobFailed, SubmissionError)) as info:  # in the first step: who is first to know decides
        line_job().parallel(some(agents, 2), codec=codec, directory=tmp_path, epoch=1, block_size=4)
    assert message in str(info.value)

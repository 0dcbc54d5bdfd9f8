"""Sync types: order of batches, time-outs, rescue, messages; who waits for whom. Time is virtual, limits are exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.message import Message
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, ParameterAveragingOptimizer, PSGDOptimizer
from parallel_sgd import JobResult, ParallelSGD, Parameter_Server, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous, SynchronizedSGD
from parallel_sgd.codec import AsyncPS, BlockWeight, Codec, DummyCodec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.parameter_server import Read, ReadGate
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.simulation.immediate import reliable
from parallel_sgd.testing.array_job import ArrayJob, expected, gradient, start, tree_mean
from rpc.shipping import load, pack
from tests.parallel_sgd.codec.compositions import bits, check_exact
from tests.parallel_sgd.links import lost_once, without
from tests.parallel_sgd.networks import mlp
from tests.parallel_sgd.paced_job import PacedJob, given

from ..statements import covers
from .stub_channel import StubChannel

TWO, THREE, FOUR = (IIDBlockAssignment(workers) for workers in (2, 3, 4))


class Sum(Codec):
    """Adds what everybody sends: the shortest codec that exchanges. Its rescue gives nothing. Others vary what is returned."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.count = 0

    def form(self, packet: netEncapsulation) -> Any:
        return packet

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self._add(block_weight.content)
        others = GlobalSettings.get_default().get_adversary(block_weight.block_id)
        return self.form(netEncapsulation(others, block_weight.content))

    def receive_blocks(self, content: Any) -> Any:
        self._add(content)
        return None

    def is_done(self) -> bool:
        return self.count == GlobalSettings.get_default().block_count

    def get_result(self) -> np.ndarray | None:
        self.count = 0
        return super().get_result()

    def _add(self, content: np.ndarray) -> None:
        self.set_result(content)
        self.count += 1


def returning(name: str, form: Any) -> type[Codec]:
    return type(name, (Sum,), {"form": lambda self, packet: form(packet)})


Listed = returning("Listed", lambda packet: [netEncapsulation(target, packet.content) for target in packet.targets])
Generated = returning("Generated", lambda packet: (netEncapsulation(target, packet.content) for target in packet.targets))


class Relay(Sum):
    """Worker 1 passes worker 0's block on to worker 2, from the receive path."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self._add(block_weight.content)
        targets = {0: [1], 1: [0, 2], 2: [0, 1]}[self.node_id]
        return netEncapsulation(targets, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> Any:
        self._add(content[1])
        if self.node_id == 1 and content[0] == 0:
            yield netEncapsulation(2, content)


class ByBlock(Codec):
    """The way codecs of the original system are written: blocks kept in a dict, subscripted annotations, no `super()`."""

    def __init__(self, node_id):  # type: ignore[no-untyped-def]
        Codec.__init__(self, node_id)
        self.blocks: dict[int, np.ndarray] = {}

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation[tuple[int, np.ndarray]]:  # type: ignore[type-arg]
        self.blocks[block_weight.block_id] = block_weight.content
        self.combine()
        others = GlobalSettings.get_default().get_adversary(block_weight.block_id)
        return netEncapsulation(others, (block_weight.block_id, block_weight.content))

    def receive_blocks(self, content: tuple[int, np.ndarray]) -> None:
        self.blocks[content[0]] = content[1]
        self.combine()

    def combine(self) -> None:
        if len(self.blocks) == GlobalSettings.get_default().block_count:
            self.set_result(sum(self.blocks.values()) / len(self.blocks))
            self.blocks.clear()


@covers("SUB-26")
@pytest.mark.parametrize("codec", [Sum, Listed, Generated, Relay, ByBlock])
def test_every_documented_form_of_packets_and_codecs_works(codec: type[Codec]) -> None:
    """None, one netEncapsulation, an iterable, a generator; also from receive_blocks. Codecs written
    against the published interface keep working; several blocks per worker."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4) if codec is ByBlock else THREE, codec=codec).run()
    blocks, times = job.assignment.block_count, 1 if codec is ByBlock else 3
    for node in job.assignment.nodes:
        for batch in range(job.batches):
            for got, mean in zip(job.results[node][batch], expected(batch, blocks), strict=True):
                np.testing.assert_allclose(got, times * mean, rtol=1e-4 if codec is ByBlock else 1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        (lambda packet: [packet, 7], TypeError, "Form must return None, a netEncapsulation or an iterable of them, got int"),
        (lambda packet: 42, TypeError, "Form must return None, a netEncapsulation or an iterable of them, got int"),
        (
            lambda packet: netEncapsulation((0, 1), packet.content),
            ValueError,
            "Form sends variable 1 to its own node 0: use set_",
        ),
        (
            lambda packet: netEncapsulation(9, packet.content),
            ValueError,
            r"Form\.update_blocks returned .*: node 9 is none of the other nodes of the job, \[1\] for variable 1 ",
        ),
        (
            lambda packet: netEncapsulation(Parameter_Server, packet.content),
            ValueError,
            r"node -2 is none .* \[1\] \(the parameter server is one with local_workers\(n, ps=True\), --ps\) for variable 1 ",
        ),
        (
            lambda packet: netEncapsulation(packet.targets, {1.5: object()}),
            TypeError,
            "int or str keys, got a key of type float",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(form: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ArrayJob(TWO, codec=returning("Form", form)).run()


# SynchronizedSGD ---------------------------------------------------------------------------------------------------------


@covers("SUB-21", "SUB-22")
def test_delayed_and_reordered_messages_change_nothing() -> None:
    """A message of batch k+1 never enters batch k and is never lost; workers never differ by more than one batch."""
    job = ArrayJob(THREE, batches=6, link=lambda s, r, _: (0.5,) if (s, r) == (0, 2) else (0.0,)).run()
    check_exact(job)
    assert job.clock.monotonic() == 1.5  # a round trip takes 0.5 s for two batches: the delay was real
    rng, done, leads = np.random.default_rng(6), [0] * 4, []

    def on_batch(node: int, batch: int) -> None:
        done[node] = batch + 1
        leads.append(max(done) - min(done))

    check_exact(ArrayJob(FOUR, batches=10, link=lambda *_: (float(rng.random()),), on_batch=on_batch).run())
    assert max(leads) == 1


class Counted(Plain):
    """Plain that notes when its rescue is called."""

    calls: list[int]

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        self.calls.append(self.node_id)
        return super().do_something_to_save_yourself()


@covers("SUB-24", "SUB-26")
@pytest.mark.parametrize("timeout", [10.0, 0.25])
def test_a_lost_batch_is_rescued_after_one_period(timeout: float) -> None:
    """After T, exactly once per variable; the packets carry the batch tag, so success continues."""
    calls: list[int] = []
    codec, link = type("Counted", (Counted,), {"calls": calls}), lost_once(lambda _sender, _receiver, key: key[2] == 1)
    job = ArrayJob(TWO, codec=codec, batches=3, timeout=timeout, link=link).run()
    check_exact(job)
    assert job.clock.monotonic() == timeout
    assert calls == [0, 0]  # two variables; worker 1 was answered before it had to ask


@covers("LAW-7")
@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize("lost", [(0, 1, 0), (0, 1, 1), (0, 1, None), (1, 0, None)])
def test_a_packet_lost_one_way_is_replaced_by_the_result(lost: tuple[int, int, int | None], nodes: int) -> None:
    """The sender is one batch ahead by then, so it answers with the result of the batch before; where one
    variable was lost, the other was complete, or even taken."""
    sender, receiver, variable = lost
    link = lost_once(lambda s, r, key: (s, r, key[2]) == (sender, receiver, 1) and variable in (None, key[3]))
    job = ArrayJob(IIDBlockAssignment(nodes), link=link).run()
    check_exact(job)
    assert job.clock.monotonic() == 10.0


@covers("SUB-24")
def test_a_late_answer_within_the_second_period_is_enough() -> None:
    """One more period T is waited; what the rescue sent comes late and is counted."""
    seen: set[tuple[int, tuple[int, ...]]] = set()

    def link(sender: int, _receiver: int, key: tuple[int, ...]) -> tuple[float, ...]:
        again = (sender, key) in seen
        seen.add((sender, key))
        return (0.75 if again else 1.5 if key[2] == 0 else 0.5,)

    job = ArrayJob(TWO, timeout=1.0, link=link).run()
    check_exact(job)
    assert job.clock.monotonic() == 2.5
    assert (job.sync(0).late, job.sync(1).late) == (4, 4)  # two variables: rescue and answer


@covers("SUB-25", "SUB-26")
@pytest.mark.parametrize(
    ("job", "seconds", "words"),
    [
        (
            ArrayJob(TWO, codec=Sum, timeout=0.75, link=lost_once(lambda _sender, _receiver, key: key[2] == 1)),
            0.75,
            "Time out while getting result, retry not available. Waited 0.75 s for variable 1 (dense/bias) of epoch 1, batch "
            "2: nothing came from node(s) 1.",
        ),
        (
            ArrayJob(DuplicateAssignment(4, 2), timeout=2.0, link=without((2, 3))),
            4.0,
            "Time out while getting result, the retry did not help. Waited 4 s for variable 1 (dense/bias) of epoch 1, batch "
            "1: missing block(s) 1 of node(s) 2, 3.",
        ),
    ],
    ids=["without rescue after one period", "after exactly 2 T"],
)
def test_a_time_out_is_told_in_the_words_of_the_original_system(job: ArrayJob, seconds: float, words: str) -> None:
    """Naming variable, batch, missing blocks and their nodes."""
    with pytest.raises(TimeoutError) as caught:
        job.run()
    assert str(caught.value) == words
    assert job.clock.monotonic() == seconds


@covers("SUB-27")
def test_an_exception_in_the_receive_path_ends_the_job() -> None:
    """No silent wait; the traceback leads into the codec."""

    class Breaks(Sum):
        def receive_blocks(self, content: Any) -> Any:
            raise ZeroDivisionError("in receive_blocks")

    job = ArrayJob(TWO, codec=Breaks)
    with pytest.raises(ZeroDivisionError, match="in receive_blocks") as caught:
        job.run()
    assert caught.traceback[-1].name == "receive_blocks"
    assert job.clock.monotonic() == 0.0


def noting(base: type[Codec], received: list[Any]) -> type[Codec]:
    """A codec that notes what it receives."""

    class Noting(base):  # type: ignore[misc, valid-type]
        def receive_blocks(self, content: Any) -> None:
            received.append((self.node_id, content))
            if base is Plain:
                super().receive_blocks(content)

    return Noting


def test_received_messages_reach_codecs_only_while_a_result_is_got() -> None:
    """Codec: synchronous types. A result that is not there cannot be got."""
    received: list[Any] = []
    job = ArrayJob(TWO, codec=noting(Plain, received)).run()
    exchange = job.exchanges[0]
    with pytest.raises(RuntimeError, match=r"There is no result yet: variable 0 \(dense/kernel\) of epoch 1, batch 3"):
        exchange.get(0)
    received.clear()
    exchange.begin(0, 3)
    for batch in (3, 4):
        exchange.deliver(1, Message((0, 0, batch, 0), (1, 2, np.ones((3, 4), np.float32)), 0, 0))
    assert received == []
    assert not exchange.ready(0)
    assert [node for node, _ in received] == [0]


def test_what_a_flush_brings_counts_at_once() -> None:
    """A channel may read while it sends; the last message must not lie there while the worker waits for another one."""

    class Reading(StubChannel):
        def flush(self) -> None:
            sync.receive(1, (0, 0), 0, (1, 2, np.ones(2, np.float32)))

        def poll(self) -> None:
            raise AssertionError("a synchronous worker waits instead")

    def in_job() -> None:
        bank = CodecBank([Plain], JobSettings(TWO), Reading(), 0)
        nonlocal sync
        sync = SynchronizedSGD(bank, 1.0, lambda: 0.0, ("kernel",))
        bank.begin((0, 0))
        sync.begin((0, 0))
        sync.put(0, 0, np.zeros(2, np.float32))
        assert sync.ready(0)
        np.testing.assert_array_equal(sync.get(0), np.full(2, 0.5, np.float32))

    sync: SynchronizedSGD
    copy_context().run(in_job)


# AsynchronizedSGD (SUB-32): nobody waits for another worker's batch ------------------------------------------------------


class Gossip(Codec):
    """Sends to the next worker, and takes what the one before has sent until now, if anything: never waits."""

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        return netEncapsulation((self.node_id + 1) % GlobalSettings.get_default().node_count, block_weight.content)

    def receive_blocks(self, content: Any) -> None:
        self.set_result(content)


SERVERS: dict[type[Codec], type[Codec] | None] = {AsyncPS: AsyncPS, SyncPS: SyncPS}
WAITING_FOR_NOBODY = pytest.mark.parametrize("codec", [AsyncPS, DummyCodec, Gossip])


def paced(
    codec: type[Codec] = AsyncPS, sync_type: Any = AsynchronizedSGD, assignment: ISetting = FOUR, **settings: Any
) -> PacedJob:
    return PacedJob(assignment, codec=codec, server=SERVERS.get(codec), sync_type=sync_type, **settings).run()  # type: ignore[return-value]


@covers("SUB-32")
@WAITING_FOR_NOBODY
def test_a_slow_worker_slows_nobody(codec: type[Codec]) -> None:
    """With one worker slowed 10 x the others' steps per second drop by less than 5 %."""
    settings: dict[str, Any] = {"batches": 20, "link": lambda *_: (0.01,)}
    even = paced(codec, **settings)
    uneven_ = paced(codec, **settings, seconds=lambda node, batch: 10.0 if node == 1 else 1.0)
    for node in (0, 2, 3):
        assert uneven_.ended[node][-1] < 1.05 * even.ended[node][-1]
    assert uneven_.ended[1][-1] > 190


@covers("SUB-32")
def test_without_a_result_a_worker_goes_on_with_its_own_value() -> None:
    """The mean over all its blocks, no assertion; what has come is taken at the next batch."""
    job = paced(Gossip, assignment=TWO, link=lambda *_: (1.5,), gradient_of=given)
    silent = ArrayJob(FixedBlockAssignment(2, 1, 6), codec=Gossip, sync_type=AsynchronizedSGD, link=lambda *_: ()).run()
    for variable in (0, 1):
        results = [batch[variable].tobytes() for batch in job.results[0]]
        assert results == [gradient(batch, node, variable).tobytes() for batch, node in ((0, 0), (1, 0), (0, 1))]
        for batch in range(silent.batches):
            wanted = tree_mean([gradient(batch, block, variable) for block in (3, 4, 5)])
            assert silent.results[1][batch][variable].tobytes() == wanted.tobytes()


def test_messages_reach_codecs_on_arrival() -> None:
    """Codec: whatever batch they are of, but not before the first one has begun or after the last."""
    received: list[Any] = []
    exchange = ArrayJob(TWO, batches=0, codec=noting(Gossip, received), sync_type=AsynchronizedSGD).run().exchanges[0]
    exchange.deliver(1, Message((0, 0, 0, 0), "early", 0, 0))
    assert received == []
    exchange.begin(0, 0)
    assert received == [(0, "early")]
    exchange.deliver(1, Message((0, 7, 3, 1), "of a later batch", 0, 0))
    assert received[1:] == [(0, "of a later batch")]
    exchange.close()
    exchange.deliver(1, Message((0, 7, 4, 1), "too late", 0, 0))
    assert (len(received), exchange.sync.late) == (2, 1)


@covers("SUB-24", "LAW-7")
@pytest.mark.parametrize("sender", [0, Parameter_Server])
@pytest.mark.parametrize("copies", [0, 2])
def test_a_packet_that_is_lost_or_doubled_changes_nothing(sender: int, copies: int) -> None:
    """Each gradient is applied once, and each answer taken once."""
    seen: set[tuple[int, ...]] = set()

    def link(source: int, _receiver: int, key: tuple[int, ...]) -> tuple[float, ...]:
        again = key in seen
        if source == sender:
            seen.add(key)
        return (0.0,) * copies if source == sender and not again and key[2] == 1 else (0.0,)

    clean, disturbed = (paced(assignment=IIDBlockAssignment(1), batches=4, link=way) for way in (reliable, link))
    assert disturbed.clock.monotonic() - clean.clock.monotonic() == (0.0 if copies else 10.0)
    assert bits(disturbed)[0][-2:] == bits(clean)[0][-2:]


@covers("SUB-25", "SUB-26")
def test_a_silent_server_is_named() -> None:
    """No wait without a limit."""
    with pytest.raises(TimeoutError, match=r"variable 1 \(dense/bias\) of epoch 1, batch 1: nothing came from node\(s\) -2"):
        paced(link=without((Parameter_Server,)))


def test_refusals_name_both() -> None:
    for codec, op_type, words in (
        (Plain, PSGDOptimizer, "'sync_type' AsynchronizedSGD cannot run 'codec' Plain, whose results"),
        (SyncPS, PSGDOptimizer, "'sync_type' AsynchronizedSGD cannot run 'codec' SyncPS, whose results"),
        (
            DummyCodec,
            GradientAveragingOptimizer,
            "'codec' DummyCodec has no result yet, but 'op_type' GradientAveragingOptimizer",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            AsynchronizedSGD.admit(codec, op_type)  # type: ignore[type-abstract]
    AsynchronizedSGD.admit(AsyncPS, GradientAveragingOptimizer)
    AsynchronizedSGD.admit(DummyCodec, PSGDOptimizer)
    AsynchronizedSGD.admit(Gossip, ParameterAveragingOptimizer)


def train(directory: Path, workers: int, *, ps: bool = False, **settings: Any) -> JobResult:
    job = ParallelSGD(mlp(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    usual = {"block_size": 16, "epoch": 3, "gd_type": SGDOptimizer, "gd_params": (0.1,), "directory": directory}
    with in_process(workers, ps=ps) as nodes:
        return job.parallel(nodes, **{**usual, **settings})


SERVED: dict[str, Any] = {"codec": AsyncPS, "ps": True, "op_type": GradientAveragingOptimizer}


def test_one_worker_trains_as_without_a_server(tmp_path: Path) -> None:
    """AsyncPS: W=1 bit-exact to SGD, also with a rule that remembers."""
    for rule in (SGDOptimizer, nn.gradient_descent.ADAMOptimizer):
        settings = {"gd_type": rule, "gd_params": (0.01,), "epoch": 1}
        alone = train(tmp_path, 1, **settings)
        served = train(tmp_path, 1, sync_type=AsynchronizedSGD, **SERVED, **settings)
        assert served.models[0].store.values.tobytes() == alone.models[0].store.values.tobytes()


@pytest.mark.share(2)
@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(2)])
def test_a_model_learns(tmp_path: Path, sync_type: Any) -> None:
    assert train(tmp_path, 4, sync_type=sync_type, **SERVED)["accuracy"] > 0.8
    with pytest.raises(ValueError, match=r"cannot run 'codec' Plain"):
        train(tmp_path, 2, sync_type=sync_type)


@pytest.mark.long
@covers("SUB-32")
def test_own_values_train_models_of_their_own_and_the_best_evaluation_is_reported(tmp_path: Path) -> None:
    """With a rate at which the loss goes up and down; synchronous workers report the last one."""
    result = train(tmp_path, 2, sync_type=AsynchronizedSGD, codec=DummyCodec)
    assert len({model.store.values.tobytes() for model in result.models.values()}) == 2
    assert np.isfinite(result["Loss"])
    settings: dict[str, Any] = {"codec": DummyCodec, "gd_params": (3.0,), "epoch": 4}
    results = [train(tmp_path, 1, sync_type=sync, **settings) for sync in (AsynchronizedSGD, SynchronizedSGD)]
    lines = (tmp_path / "Node-0-Retrieve" / "EV-P-SGD-N(0).csv").read_text().splitlines()[1:]
    losses = [float(line.split(",")[0]) for line in lines]
    assert [result["Loss"] for result in results] == [min(losses), losses[-1]]
    assert min(losses) < losses[-1]


# StaleSynchronous(s): nobody is more than s batches ahead of the slowest worker ------------------------------------------


def uneven(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda *_: float(rng.uniform(0.1, 3.0))


@pytest.mark.parametrize(
    ("codec", "assignment"),
    [
        (Plain, THREE),
        (Plain, DuplicateAssignment(4, 2)),
        (SyncPS, FixedBlockAssignment(2, 1, 4)),
        (AsyncPS, THREE),
        (DummyCodec, TWO),
    ],
)
def test_without_slack_it_is_synchronous(codec: type[Codec], assignment: ISetting) -> None:
    """SSP(s): s=0 bit-exact to SSGD, whatever the links do."""
    runs = []
    for sync_type in (SynchronizedSGD, StaleSynchronous(0)):
        rng = np.random.default_rng(4)
        link = lambda *_, rng=rng: (float(rng.random()),)  # noqa: E731
        in_order = codec is AsyncPS  # which applies gradients in the order of their arrival
        runs.append(paced(codec, sync_type, assignment, link=reliable if in_order else link))
    assert bits(runs[0]) == bits(runs[1])


@WAITING_FOR_NOBODY
def test_with_infinite_slack_it_is_asynchronous(codec: type[Codec]) -> None:
    """SSP(s): s=inf == ASGD, in bits, time and bytes."""
    one, two = (paced(codec, sync, batches=8, seconds=uneven(7)) for sync in (AsynchronizedSGD, StaleSynchronous(math.inf)))
    assert (bits(one), one.ended) == (bits(two), two.ended)
    books = [[exchange.accounts.entries() for exchange in job.exchanges.values()] for job in (one, two)]
    assert books[0] == books[1]


@WAITING_FOR_NOBODY
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_nobody_gets_further_ahead(codec: type[Codec], slack: int) -> None:
    """SSP(s): random delays of workers and links, max lead observed <= s; and the slack is used."""
    rng = np.random.default_rng(slack)
    settings: dict[str, Any] = {"seconds": uneven(slack), "link": lambda *_: (float(rng.uniform(0, 0.2)),)}
    job = paced(codec, StaleSynchronous(slack), batches=25, timeout=60.0, **settings)
    assert max(job.leads) == slack
    assert [len(results) for results in job.results.values()] == [25] * 4


@pytest.mark.parametrize("slack", [0, 1, 4])
def test_what_is_read_holds_all_updates_that_are_old_enough(slack: int) -> None:
    """Ho et al.: with a clock of c a worker sees the first c - s updates of everybody, and all of its own."""

    def one_for_the_block(parameters: np.ndarray, batch: int, block: int, variable: int) -> np.ndarray:
        result = np.zeros_like(parameters)
        result.reshape(-1)[block] = -1.0
        return result

    settings: dict[str, Any] = {"gradient_of": one_for_the_block, "rule": lambda: SGDOptimizer(1.0)}
    job = paced(AsyncPS, StaleSynchronous(slack), batches=12, timeout=60.0, seconds=uneven(3), **settings)
    for node in range(4):
        for batch, values in enumerate(job.results[node]):
            counts = np.rint(values[1] - start(1))
            assert counts.min() >= batch + 1 - slack
            assert counts[node] == batch + 1


@pytest.mark.parametrize("codec", [AsyncPS, DummyCodec])
def test_a_worker_may_pause_or_leave(codec: type[Codec]) -> None:
    """SSP(s): no deadlock when one worker pauses and resumes; the others wait, and go on; for one that has left
    nobody waits; one that does not resume is named: no wait without a limit."""

    def job_of(seconds: float, **settings: Any) -> PacedJob:
        pause = lambda node, batch: seconds if (node, batch) == (2, 3) else 1.0  # noqa: E731
        return paced(codec, StaleSynchronous(1), batches=8, seconds=pause, **settings)

    job = job_of(15.0)
    assert [len(results) for results in job.results.values()] == [8] * 4
    assert max(job.leads) == 1
    assert all(moments[3] < 6.0 < 18.0 <= moments[4] for node, moments in job.ended.items() if node != 2)
    job = job_of(1.0, ends_after={3: 2})
    assert [len(results) for results in job.results.values()] == [8, 8, 8, 2]
    assert job.clock.monotonic() == 8.0
    words = {
        DummyCodec: r"Waited 20 s for node\(s\) 2, more than 1 batch behind",
        AsyncPS: r"the retry did not help. Waited 20 s for variable 1 .* of epoch 1, batch 5",
    }
    with pytest.raises(TimeoutError, match=words[codec]):
        job_of(100.0)


def test_slack_is_a_number_and_travels_as_plain_data() -> None:
    """By name and number, so that agents which accept no code take it too."""
    for slack, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="StaleSynchronous 'staleness' must be an integer of at least 0"):
            StaleSynchronous(slack)  # type: ignore[arg-type]
    for slack in (3, math.inf):
        bundle = pack({"sync_type": StaleSynchronous(slack)})
        assert bundle.code == b""
        assert load(bundle.objects, bundle.code)[0]["sync_type"] == StaleSynchronous(slack)
    assert StaleSynchronous(3).__name__ == "StaleSynchronous(3)"


def test_a_gate_opens_in_the_order_of_arrival() -> None:
    gate = ReadGate(range(3), staleness=1)
    for node, batch in ((0, 0), (1, 0), (0, 1), (1, 1)):
        gate.arrived(node, (0, batch))
    assert gate.open(range(3)) == [Read(1, 0, (0, 0)), Read(1, 1, (0, 0))]
    assert gate.waiting
    assert gate.open(range(3)) == []
    gate.arrived(1, (0, 1))  # again: it asks once more, and its clock stays
    gate.arrived(2, (0, 0))
    assert gate.open(range(3)) == [Read(2, 0, (0, 1)), Read(2, 1, (0, 1)), Read(1, 2, (0, 0))]
    gate.arrived(1, (0, 1))
    assert gate.open(range(3)) == [Read(2, 1, (0, 1))]
    gate.arrived(1, (0, 0))  # older than what it has sent since
    assert not gate.waiting

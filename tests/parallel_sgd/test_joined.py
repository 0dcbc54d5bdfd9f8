"""Neighbouring variables that travel as one vector: equal bits, and accounts and messages by variable as before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import nn
from network.errors import BadContent
from nn.gradient_descent import ADAMOptimizer
from nn.optimizer import GAOptimizer, OpContainer, ParameterAveragingOptimizer, PSGDOptimizer
from parallel_sgd.batch_sync import StaleSynchronous, SynchronizedSGD
from parallel_sgd.codec import (
    FP16,
    BlockWeight,
    Codec,
    FirstCopy,
    GlobalSettings,
    Median,
    Remembering,
    Ring,
    TopK,
    Tree,
    netEncapsulation,
)
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.accounts import Entry
from parallel_sgd.engine.channel import Key
from parallel_sgd.engine.worker import JOINED_BYTES, join
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment, ISetting
from tests.parallel_sgd.digits_job import DigitsJob, plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers

KB = 1 << 10


class Alone(Plain):
    """Says nothing of vectors, so it gets single variables."""


class RingAlone(Ring):
    """Likewise, on top of a composition."""


class Own(PSGDOptimizer):
    """As those that users write before there were vectors."""


@pytest.mark.parametrize(
    ("kinds", "sizes", "options", "expected"),
    [
        ([Plain] * 4, [KB] * 4, {}, [(0, 4)]),
        ([Plain] * 4, [JOINED_BYTES, KB, JOINED_BYTES, KB], {}, [(0, 2), (2, 4)]),
        ([Plain] * 3, [KB, KB, JOINED_BYTES], {}, [(0, 2), (2, 3)]),
        ([Plain, TopK, Plain, Plain], [KB] * 4, {}, [(0, 1), (1, 2), (2, 4)]),
        ([Alone] * 2, [KB] * 2, {}, [(0, 1), (1, 2)]),
        ([Ring] * 2, [KB] * 2, {}, [(0, 2)]),
        ([Tree] * 2, [KB] * 2, {}, [(0, 2)]),
        ([FP16] * 2, [KB] * 2, {}, [(0, 1), (1, 2)]),
        ([Median] * 2, [KB] * 2, {}, [(0, 1), (1, 2)]),
        ([FirstCopy] * 2, [KB] * 2, {}, [(0, 1), (1, 2)]),
        ([RingAlone] * 2, [KB] * 2, {}, [(0, 1), (1, 2)]),
        ([Plain] * 2, [KB] * 2, {"op_type": Own}, [(0, 1), (1, 2)]),
        ([Plain] * 2, [KB] * 2, {"op_type": ParameterAveragingOptimizer}, [(0, 1), (1, 2)]),
        ([Plain] * 2, [KB] * 2, {"op_type": GAOptimizer}, [(0, 2)]),
        ([Plain] * 2, [KB] * 2, {"sync_type": StaleSynchronous(1)}, [(0, 1), (1, 2)]),
        ([Plain] * 2, [KB] * 2, {"has_server": True}, [(0, 1), (1, 2)]),
        ([], [], {}, []),
    ],
)
def test_who_is_joined(
    kinds: Sequence[type[Codec]], sizes: Sequence[int], options: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    """Neighbours of one codec that says so itself, until a vector is large; only where the optimizer knows, too."""
    given = {"op_type": PSGDOptimizer, "sync_type": SynchronizedSGD, **options}
    assert join(kinds, sizes, **given) == [range(*ends) for ends in expected]


def job_of(codec: Any = Plain, assignment: ISetting | None = None, **parts: Any) -> DigitsJob:
    optimizer = OpContainer(parts.pop("op_type", PSGDOptimizer), ADAMOptimizer)
    link = {"link": parts.pop("link")} if "link" in parts else {}
    plan = plan_of(
        assignment or IIDBlockAssignment(2), block_size=75, epoch=1, seed=5, optimizer=optimizer, codec=codec, **parts
    )
    return DigitsJob(plan, mlp(), **link).run()


def lines(job: DigitsJob) -> dict[int, list[Entry]]:
    return {node: worker.exchange.accounts.entries() for node, worker in job.workers.items()}


@pytest.mark.parametrize("codec", [Ring, Tree])
@pytest.mark.parametrize("workers", [2, 5])
def test_what_is_merged_elsewhere_has_the_bits_of_plain(codec: type[Codec], workers: int) -> None:
    """Shards, sums along a tree of workers: of the vector, as of variables."""
    plain, other = (job_of(kind, IIDBlockAssignment(workers)) for kind in (Plain, codec))
    assert other.weights() == plain.weights()
    assert len(other.workers[0].exchange.bank.codecs) == 1


@covers("SUB-40")
@pytest.mark.parametrize("assignment", [IIDBlockAssignment(2), IIDBlockAssignment(3, 2), DuplicateAssignment(4, 2)])
def test_equal_bits_and_accounts(assignment: ISetting) -> None:
    """Equal weights with and without; each variable has its bytes to the number, and sums are those that left."""
    one, each = job_of(assignment=assignment), job_of(assignment=assignment, op_type=Own)
    assert len(one.workers[0].exchange.bank.codecs) == 1 < len(each.workers[0].exchange.bank.codecs)
    assert one.weights() == each.weights()
    for node, entries in lines(one).items():
        single = lines(each)[node]
        assert [entry._replace(wire=0, overhead=0) for entry in entries] == [
            entry._replace(wire=0, overhead=0) for entry in single
        ]
        overheads = [sum(entry.overhead for entry in found) for found in (entries, single)]
        assert 0 < overheads[0] < overheads[1] / 3
        for direction in ("sent", "received"):
            own = [entry for entry in entries if entry.direction == direction]
            total = one.workers[node].exchange.accounts.total(direction)
            assert (sum(entry.raw for entry in own), sum(entry.overhead for entry in own)) == total[:2]
    exchange = one.workers[0].exchange
    assert list(exchange.names) == [variable.name for variable in one.models[0].trainable_variables()]
    assert [variable for _, variable, *_ in exchange.accounts.costs()] == list(range(len(exchange.names)))


class Looks(nn.callback.Callback):
    """Whoever looks at gradients."""


def test_who_looks_at_gradients_sees_those_that_were_applied() -> None:
    """Where there are callbacks, the gradients of the store are the merged ones, as with variables by themselves; else nobody
    copies them there."""
    seen = [job_of(callbacks=[Looks()], op_type=kind) for kind in (PSGDOptimizer, Own)]
    gradients = {model.store.gradients.tobytes() for job in seen for model in job.models.values()}
    assert len(gradients) == 1 and seen[0].weights() == job_of().weights()


class Shy(Remembering):
    """Twenty lines of a user: it must see its own variable, in its shape."""

    seen: ClassVar[set[tuple[int, tuple[int, ...]]]] = set()

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        settings = GlobalSettings.current()
        self.seen.add((settings.variable, GlobalSettings.get_value().shape))
        self.set_result(block_weight.content)
        return netEncapsulation(settings.assignment.get_adversary(block_weight.block_id), block_weight.content)

    def receive_blocks(self, content: Any) -> None:
        self.set_result(content, lambda old, new: new if old is None else (old + new) / 2)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": np.zeros(1)}


def test_other_codecs_keep_their_variables() -> None:
    """Between vectors a codec of a user has the number, the value and the shape of its variable, in its state too."""
    Shy.seen.clear()
    job = job_of({3: Shy})
    bank = job.workers[0].exchange.bank
    shape = tuple(job.models[0].trainable_variables()[3].shape)
    assert Shy.seen == {(3, shape)} and list(bank.state_dict()) == ["3.seen"] and len(bank.codecs) == 3
    assert [bank.describe(place) for place in range(3)] == [
        "variables 0 to 2 (dense_1/kernel to dense_2/kernel)",
        "variable 3 (dense_2/bias)",
        "variables 4 to 5 (dense_3/kernel to dense_3/bias)",
    ]


def test_messages_name_variables() -> None:
    """A number that is not finite by its variable, what is late by all that travel together."""
    bank = job_of().workers[1].exchange.bank
    vector = np.zeros(sum(bank.accounts.joined(0).sizes), np.float32)
    vector[-1] = np.nan
    with pytest.raises(BadContent, match=r"Node\(0\) .* for Plain, variable 5 \(dense_3/bias\), .*: 1 of \d+ numbers are not"):
        bank.receive(0, (0, 1, vector), 0)
    with pytest.raises(FloatingPointError, match=r"for Plain, variable 5 \(dense_3/bias\), epoch 1"):
        bank.check_result(0, vector)
    with pytest.raises(BadContent, match=r"for Plain, variables 0 to 5 \(dense_1/kernel to dense_3/bias\), epoch 1, .*must be"):
        bank.receive(0, (0, 1, vector[1:]), 0)

    def lost(sender: int, _receiver: int, _key: Key) -> tuple[float, ...]:
        return () if sender else (0.0,)

    with pytest.raises(TimeoutError, match=r"variables 0 to 5 \(.*\) of epoch 1, batch 1: missing block\(s\) 1 of node\(s\) 1"):
        job_of(link=lost, ssgd_timeout_limit=200.0)

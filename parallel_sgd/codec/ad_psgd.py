"""Asynchronous gossip: pairs of workers average their parameters, and no worker waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nn.random import keyed
from parallel_sgd.engine.merge import OwnMean
from parallel_sgd.engine.unusable import Like, Unusable

from .interfaces import Array, BlockWeight, CheckingPackets, Remembering, netEncapsulation
from .settings import GlobalSettings
from .traits import PacketTraits, Traits

#: Batches after which an active worker that has had no answer asks somebody again: the one asked may have left.
PATIENCE: Final = 16

#: To a passive worker: `(active worker, number of the question, its parameters)`.
Question = tuple[int, int, Array]
#: Back: `(number of the question, change of the parameters)`; None from one that has no parameters yet.
Answer = tuple[int, Array | None]


class ADPSGD(CheckingPackets, Remembering):
    """Gossip: an active worker i sends its parameters to a passive one j, drawn at random, which makes both their mean:

        d = (x_i - x_j) / 2,   x_j <- x_j + d at once,   x_i <- x_i - d when the answer has come.

    The steps that workers make meanwhile are kept, for only differences are added: with any delays, the sum over all workers
    changes by their own steps alone. Even workers are active, odd ones passive, so no worker both asks and is asked; an
    active one has one question under way. For op_type=ParameterAveragingOptimizer with sync_type AsynchronizedSGD or
    StaleSynchronous(s). Bytes per variable of n elements: 4n from an active worker in a batch, 4n back. All pairs have the
    same probability, for each variable by itself.

    Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018.

    Raises: ValueError where blocks are redundant, for copies of a block would then be parameters of different workers.
    """

    traits = Traits(
        keeps_content=False, agrees=False, takes="parameters", asynchronous=True, packets=PacketTraits(keeps_type=True)
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        settings = self._settings = GlobalSettings.current()
        job = settings.assignment
        settings.check_node(self)
        if job.redundancy > 1:
            raise ValueError(f"ADPSGD exchanges parameters of single workers, so 'redundancy' must be 1, got {job.redundancy}")
        # two fixed halves: no circle of workers that wait for each other's answer
        self._passive = [node for node in job.nodes if node % 2]
        self._active = node_id % 2 == 0
        forms: tuple[Any, ...] = ((int, np.ndarray), (int, type(None))) if self._active else ((int, int, np.ndarray),)
        self.traits = self.traits.with_forms(*forms)
        self._seed, self._variable = settings.seed, settings.variable
        self._mean = OwnMean(job.node_2_block[node_id])
        self._value: Array | None = None
        self._change: Array | None = None
        self._asked = 0
        self._open: dict[int, int] = {}  # questions without an answer, each with the worker that was asked
        self._waiting = 0
        # numbers of questions grow, so one number for each active worker finds copies
        self._heard = dict.fromkeys(job.nodes, -1)
        self.exchanges = 0
        self.duplicates = 0

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        """Add the changes of exchanges to the worker's own parameters; an active worker asks for the next exchange."""
        content, block = block_weight
        own = self._mean.add(block, content)
        if own is None:
            return None
        self._mean.reset()
        # a new array: the last one may lie in a packet that is still in line
        value = own.copy() if self._change is None else np.add(own, self._change)
        self._value, self._change = value, None
        self.set_result(value, lambda _, new: new)
        if not self._active or not self._passive:
            return None
        # counted in batches: an answer that never comes must not end the exchanges
        self._waiting = max(0, self._waiting - 1)
        if self._waiting:
            return None
        number, self._waiting = self._asked, PATIENCE
        self._asked += 1
        # keyed by the number of the question, so a restart draws the partners that it would have drawn
        draw = keyed(self._seed, "ad-psgd", self._variable, self.node_id, number)
        asked = self._open[number] = self._passive[int(draw.integers(len(self._passive)))]
        return netEncapsulation(asked, (self.node_id, number, value))

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse questions in the name of another worker, or of a passive one, and answers of one that was not asked."""
        super().check(content, like)
        if not self._active:
            self._settings.check_sender(content[0])
            # passive workers answer and never ask
            if content[0] % 2 or content[0] not in self._heard:
                raise Unusable(f"node({content[0]}) is no active worker, and asks")
        # an answer to a question that is no longer open changes nothing (`receive_blocks`)
        elif content[0] in self._open:
            self._settings.check_sender(self._open[content[0]])

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        if not self._active:
            return self._answered(content)
        number, change = content
        if number not in self._open:
            self.duplicates += 1
            return None
        del self._open[number]
        self._waiting = 0
        if change is not None:
            self._add(change)
        return None

    def _answered(self, question: Question) -> netEncapsulation | None:
        node, number, theirs = question
        if number <= self._heard[node]:
            self.duplicates += 1
            return None
        self._heard[node] = number
        answer: Answer = (number, None)
        if self._value is not None:
            ours = self._value if self._change is None else np.add(self._value, self._change)
            # both sides add the same difference with opposite signs, so the sum over all workers stays
            half = np.multiply(np.subtract(theirs, ours), theirs.dtype.type(0.5))
            self._add(half)
            answer = (number, np.negative(half))
        return netEncapsulation(node, answer)

    def _add(self, change: Array) -> None:
        self.exchanges += 1
        self._change = change.copy() if self._change is None else np.add(self._change, change)

    def state_dict(self) -> dict[str, Any]:
        change = {} if self._change is None else {"change": self._change}
        return {"asked": self._asked, **change}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_dict` returned.

        Questions under way are forgotten, and so are those answered: states of two workers need not be of the same moment.
        """
        rest = dict(state)
        self._asked = int(rest.pop("asked", 0))
        change = rest.pop("change", None)
        self._change = None if change is None else np.array(change)
        # after a restart active workers may count from an earlier question
        self._heard = dict.fromkeys(self._heard, -1)
        self._open.clear()
        self._waiting = 0
        super().load_state_dict(rest)

    def dispose(self) -> None:
        super().dispose()
        self._value = self._change = None
        self._mean.reset()

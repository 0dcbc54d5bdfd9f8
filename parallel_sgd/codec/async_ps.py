"""Asynchronous SGD through the parameter server, which applies every gradient when it arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from parallel_sgd.merge import BlockMean
from parallel_sgd.node_ids import Parameter_Server
from parallel_sgd.unusable import Like

from .interfaces import Array, BlockWeight, Codec, netEncapsulation
from .served_variable import ServedVariable
from .settings import GlobalSettings

#: To the server: `(worker, round, gradient)`, rounds being the answers that the worker has had. In the first round the
#: parameters that the gradient was computed with come fourth.
Push = tuple[int, int, Array] | tuple[int, int, Array, Array]
#: To a worker: `(round, parameters)`.
Pull = tuple[int, Array]

_UP: tuple[Any, ...] = ((int, int, np.ndarray), (int, int, np.ndarray, np.ndarray))
_DOWN: tuple[Any, ...] = ((int, np.ndarray),)


class AsyncPS(Codec):
    """The server keeps the parameters w. A gradient g of worker i changes them on arrival, and i gets them back:

        w <- w + rule(g),  with SGD: w <- w - eta g        (Dean et al., "Large scale distributed deep networks", 2012)

    The rule is the job's own (`gd_type`, `gd_params`), one for each variable on the server; every gradient is one step of it.
    It goes with `op_type=GradientAveragingOptimizer` and `sync_type` AsynchronizedSGD or StaleSynchronous(s); under
    SynchronizedSGD everybody gets the parameters after all gradients of the batch. When W workers take turns, a gradient
    is W - 1 steps old. `codec_extra_parameters={"staleness_aware": True}` divides the change by a gradient tau steps old by
    tau + 1; `staleness`, on the server, counts the taus.

    A worker sends the mean over its blocks, in its first batch also the parameters, which the server takes from the first
    packet of all. Bytes per worker and variable of n elements: 4n up and 4n down. Memory of the server: 4n for every worker.

    Raises: ValueError where blocks are redundant, since each copy would be applied, or where the rule looks at more than one
        variable (`clip_norm`).
    """

    keeps_content = False
    keeps_type = True
    needs_server = True
    serves = True
    awaits_answer = True
    agrees = False
    takes = "gradients"
    gives = "parameters"

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.forms = _UP if node_id == Parameter_Server else _DOWN
        self._settings = GlobalSettings.current()
        name, job = type(self).__name__, self._settings.assignment
        if node_id != Parameter_Server and node_id not in job.nodes:
            raise ValueError(
                f"{name} runs on the workers {job.nodes} and the parameter server {Parameter_Server}, got node {node_id}"
            )
        if job.redundancy > 1:
            raise ValueError(
                f"{name} applies every gradient that arrives, so each block must be on one worker: 'redundancy' must be 1, "
                f"got {job.redundancy}"
            )
        self._rounds = dict.fromkeys(job.nodes, 0)
        self._sent: Push | None = None
        self._served: ServedVariable | None = None
        self.staleness = Counter[int]()
        self.duplicates = 0
        self._returning: set[int] = set()  # workers of whom nothing has come since a state was taken over
        if node_id == Parameter_Server:
            self._rule = GlobalSettings.get_rule()
            self._aware = bool(GlobalSettings.get_params("staleness_aware", False))
            if self._rule.clip_norm is not None:
                raise ValueError(
                    f"{name} has a rule for each variable, so 'clip_norm' must be None, got {self._rule.clip_norm}"
                )
        else:
            mine = job.node_2_block[node_id]
            self._place = {block: place for place, block in enumerate(mine)}
            self._mean = BlockMean(len(mine))
            self._start: Array | None = GlobalSettings.get_value()

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        """Send the mean over the worker's blocks when the last one is computed."""
        content, block = block_weight
        place = self._place[block]
        mean = self._mean.mean_with((place, place + 1), content, stays=place == len(self._place) - 1)
        if mean is None:
            return None
        push = (self.node_id, self._rounds[self.node_id], mean)
        self._sent = push if self._start is None else (*push, self._start)
        return netEncapsulation(Parameter_Server, self._sent)

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse gradients in the name of another worker, and parameters of anybody but the server."""
        super().check(content, like)
        self._settings.check_sender(content[0] if self.node_id == Parameter_Server else Parameter_Server)

    def receive_blocks(self, content: Any) -> None:
        """Apply a gradient, on the server; on a worker take the parameters."""
        if self.node_id == Parameter_Server:
            self._apply(content)
        else:
            self._take(content)

    def _take(self, content: Pull) -> None:
        round_, parameters = content
        if round_ == self._rounds[self.node_id] and self._sent is not None and self._result is None:
            self.set_result(parameters)

    def _apply(self, content: Push) -> None:
        node, round_, gradient, *start = content
        if node in self._returning:  # its state and ours need not be of the same moment
            self._returning.discard(node)
            self._rounds[node] = round_
        if round_ < self._rounds[node]:
            self.duplicates += 1
            return
        if round_ > self._rounds[node] or not (start or self._served):
            raise ValueError(
                f"The parameter server has had {self._rounds[node]} gradients of node({node}), which has sent {round_} before"
            )
        served = self._served or self._serve(start[0])
        self._rounds[node] += 1
        self.apply(served, node, gradient)

    def _serve(self, value: Array) -> ServedVariable:
        self._served = ServedVariable(value, self._rounds, self._rule, self._aware)
        self.staleness = self._served.staleness
        return self._served

    def apply(self, served: ServedVariable, node: int, gradient: Array) -> None:
        """Change the parameters by a gradient of `node`, on the server."""
        served.apply(node, gradient)

    def answer(self, node: int) -> netEncapsulation | None:
        """Send `node` the parameters as they are now."""
        served = self._served
        return None if served is None else netEncapsulation(node, (self._rounds[node] - 1, served.read(node)))

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        """Send the gradient again; the server applies it once, and answers again."""
        return None if self._sent is None else iter((netEncapsulation(Parameter_Server, self._sent),))

    def get_result(self) -> Array | None:
        """The parameters."""
        if self._result is not None:
            self._rounds[self.node_id] += 1
            self._sent = self._start = None
            self._mean.reset()
        return super().get_result()

    def state_dict(self) -> dict[str, Any]:
        """The rounds; on the server also the parameters, the state of the rule, and what the workers have read."""
        rounds = {f"round.{node}": count for node, count in self._rounds.items()}
        return rounds if self._served is None else rounds | self._served.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError where names or shapes do not fit.
        """
        names = {f"round.{node}" for node in self._rounds}
        rest = {name: value for name, value in state.items() if name not in names}
        if not names <= state.keys() or (rest and self.node_id != Parameter_Server):
            raise ValueError(
                f"{type(self).__name__} state must hold {', '.join(sorted(names))}, got {', '.join(sorted(state))}"
            )
        self._rounds = {node: int(state[f"round.{node}"]) for node in self._rounds}
        if self.node_id != Parameter_Server:
            self._start = None if self._rounds[self.node_id] else self._start
        elif rest:
            self._returning = set(self._rounds)
            self._serve(np.asarray(rest.get("value", 0.0))).load_state_dict(rest)

    def dispose(self) -> None:
        """Let go of parameters and gradients."""
        super().dispose()
        self._sent = self._served = None
        if self.node_id != Parameter_Server:
            self._start = None
            self._mean.reset()

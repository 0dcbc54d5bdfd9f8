"""Asynchronous SGD through the parameter server, which applies every gradient when it arrives: as it is, or with delay
compensation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nn import arguments
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.numerics import flush_squares_to_zero
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.merge import OwnMean
from parallel_sgd.engine.unusable import Like

from .interfaces import Answering, Array, BlockWeight, CheckingPackets, Remembering, Tracking, netEncapsulation
from .settings import GlobalSettings
from .traits import PacketTraits, Traits

#: To the server: `(worker, round, gradient)`, rounds being the answers that the worker has had. In the first round the
#: parameters that the gradient was computed with come fourth.
Push = tuple[int, int, Array] | tuple[int, int, Array, Array]
#: To a worker: `(round, parameters)`.
Pull = tuple[int, Array]

_UP: tuple[Any, ...] = ((int, int, np.ndarray), (int, int, np.ndarray, np.ndarray))
_DOWN: tuple[Any, ...] = ((int, np.ndarray),)


class AsyncPS(Answering, CheckingPackets, Remembering, Tracking):
    """Asynchronous SGD: the server keeps the parameters w. A gradient g of worker i changes them on arrival; i gets them back:

        w <- w + rule(g),  with SGD: w <- w - eta g        (Dean et al., "Large scale distributed deep networks", 2012)

    The rule is the job's own (`gd_type`, `gd_params`), one for each variable on the server; every gradient is one step of it.
    It goes with `op_type=GradientAveragingOptimizer` and `sync_type` AsynchronizedSGD or StaleSynchronous(s); under
    SynchronizedSGD all workers get the parameters after all gradients of the batch. When W workers take turns, a gradient
    is W - 1 steps old. `codec_extra_parameters={"staleness_aware": True}` divides the change by a gradient tau steps old by
    tau + 1; `staleness`, on the server, counts the taus.

    A worker sends the mean over its blocks, in its first batch also the parameters, which the server takes from the first
    packet of all. Bytes per worker and variable of n elements: 4n up and 4n down. Memory of the server: 4n for every worker.

    Raises: ValueError where blocks are redundant, since each copy would be applied, or where the rule looks at more than one
        variable (`clip_norm`).
    """

    traits = Traits(
        keeps_content=False,
        needs_server=True,
        serves=True,
        awaits_answer=True,
        agrees=False,
        takes="gradients",
        gives="parameters",
        parameters=("staleness_aware",),
        packets=PacketTraits(keeps_type=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.traits = self.traits.with_forms(*(_UP if node_id == Parameter_Server else _DOWN))
        self._settings = GlobalSettings.current()
        name, job = type(self).__name__, self._settings.assignment
        self._settings.check_node(self)
        # with redundancy the same gradient would be applied once for each copy
        if job.redundancy > 1:
            raise ValueError(
                f"{name} applies every gradient that arrives, so each block must be on one worker: 'redundancy' must be 1, "
                f"got {job.redundancy}"
            )
        # the worker counts its answers, the server its gradients: equal numbers make every packet apply once (INV-3)
        self._rounds = dict.fromkeys(job.nodes, 0)
        self._sent: Push | None = None
        self._served: ServedVariable | None = None
        self.staleness = Counter[int]()
        self.duplicates = 0
        # a server and its workers restart from checkpoints of different moments
        self._returning: set[int] = set()  # workers of whom nothing has come since a state was taken over
        if node_id == Parameter_Server:
            self._rule = GlobalSettings.get_rule()
            self._aware = bool(GlobalSettings.get_params("staleness_aware", False))
            # a norm over all variables needs all their gradients at one moment
            if self._rule.clip_norm is not None:
                raise ValueError(
                    f"{name} has a rule for each variable, so 'clip_norm' must be None, got {self._rule.clip_norm}"
                )
        else:
            self._mean = OwnMean(job.node_2_block[node_id])
            # the first packet of all brings the parameters: the server has no model of its own
            self._start: Array | None = GlobalSettings.get_value()

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        content, block = block_weight
        mean = self._mean.add(block, content)
        if mean is None:
            return None
        push = (self.node_id, self._rounds[self.node_id], mean)
        # in the first round alone, since `get_result` clears it
        self._sent = push if self._start is None else (*push, self._start)
        return netEncapsulation(Parameter_Server, self._sent)

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse gradients in the name of another worker, and parameters of any node but the server."""
        super().check(content, like)
        self._settings.check_sender(content[0] if self.node_id == Parameter_Server else Parameter_Server)

    def receive_blocks(self, content: Any) -> None:
        if self.node_id == Parameter_Server:
            self._apply(content)
        else:
            self._take(content)

    def _take(self, content: Pull) -> None:
        round_, parameters = content
        # an answer of an earlier round, to a packet that was sent twice, is out of date
        if round_ == self._rounds[self.node_id] and self._sent is not None and self._result is None:
            self.set_result(parameters)

    def _apply(self, content: Push) -> None:
        node, round_, gradient, *start = content
        # the first packet after a restart tells where its worker stands
        if node in self._returning:  # its state and ours need not be of the same moment
            self._returning.discard(node)
            self._rounds[node] = round_
        # sent again because an answer was late: the gate answers again (`ReadGate`)
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
        """Change the parameters on the server by a gradient; a subclass may correct it first.

        Args:
            served: the parameters of the variable.
            node: the worker that has computed the gradient.
            gradient: the mean over the worker's blocks, an array of the variable's shape.
        """
        served.apply(node, gradient)

    def answer(self, node: int) -> netEncapsulation | None:
        served = self._served
        # the number of the gradient that is answered, so that the worker can tell answers apart
        return None if served is None else netEncapsulation(node, (self._rounds[node] - 1, served.read(node)))

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        """Send the gradient again; the server applies it once, and answers again."""
        return None if self._sent is None else iter((netEncapsulation(Parameter_Server, self._sent),))

    def get_result(self) -> Array | None:
        if self._result is not None:
            self._rounds[self.node_id] += 1
            self._sent = self._start = None
            self._mean.reset()
        return super().get_result()

    def state_dict(self) -> dict[str, Any]:
        rounds = {f"round.{node}": count for node, count in self._rounds.items()}
        return rounds if self._served is None else rounds | self._served.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        names = {f"round.{node}" for node in self._rounds}
        rest = {name: value for name, value in state.items() if name not in names}
        if not names <= state.keys() or (rest and self.node_id != Parameter_Server):
            raise ValueError(
                f"{type(self).__name__} state must hold {', '.join(sorted(names))}, got {', '.join(sorted(state))}"
            )
        self._rounds = {node: int(state[f"round.{node}"]) for node in self._rounds}
        if self.node_id != Parameter_Server:
            # after a restart in the middle the server has parameters already
            self._start = None if self._rounds[self.node_id] else self._start
        elif rest:
            self._returning = set(self._rounds)
            self._serve(np.asarray(rest.get("value", 0.0))).load_state_dict(rest)

    def dispose(self) -> None:
        super().dispose()
        self._sent = self._served = None
        if self.node_id != Parameter_Server:
            self._start = None
            self._mean.reset()


_RULE = "rule."


class ServedVariable:
    """The parameters w of one variable; every gradient is a step of `rule`.

    The staleness tau of a gradient is the number of gradients applied since its worker read w; `staleness` counts the taus.
    With `aware` each change is divided by tau + 1 (Zhang et al., "Staleness-aware async-SGD", IJCAI 2016). Memory beside w and
    the rule's: the copy that each worker has read last, which is also the one on its way to it.
    """

    def __init__(self, start: Array, workers: Iterable[int], rule: IGradientDescent, aware: bool = False) -> None:
        self.value = start.copy()
        self.staleness: Counter[int] = Counter()
        self.rule = rule
        # some rules need the sizes of what they change before the first step
        rule.partition([start.size])
        self._aware = aware
        self._applied = 0
        # tau counts from the moment of reading, not of sending
        self._seen = dict.fromkeys(workers, 0)  # the gradients applied when a worker read
        self._read = {node: start.copy() for node in self._seen}
        self._change = np.empty(start.size if aware else 0, start.dtype)

    def apply(self, node: int, gradient: Array, compensate: Callable[[Array, Array, Array], Array] | None = None) -> None:
        """Change w by the gradient that `node` computed with the parameters that it read last.

        `compensate(gradient, w, parameters that the worker read)`, on flat arrays, gives the vector that is applied in place of
        a stale gradient.
        """
        tau = self._applied - self._seen[node]
        self.staleness[tau] += 1
        self._applied += 1
        value, flat = self.value.reshape(-1), gradient.reshape(-1)
        if compensate is not None:
            flat = compensate(flat, value, self._read[node].reshape(-1))
        # dividing by 1 is left out, so that the bits are those of the rule
        if not self._aware or tau == 0:
            self.rule.update(value, flat)
            return
        self.rule.write_change(value, flat, self._change)
        np.divide(self._change, tau + 1, out=self._change)
        np.add(value, self._change, out=value)

    def read(self, node: int) -> Array:
        """Return w as it is now, for `node`; unchanged until that node reads again."""
        # copied: w changes with the next gradient, while this answer waits for its reader
        copy = self._read[node]
        np.copyto(copy, self.value)
        self._seen[node] = self._applied
        return copy

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"value": self.value, "applied": self._applied}
        for node, seen in self._seen.items():
            state[f"seen.{node}"], state[f"read.{node}"] = seen, self._read[node]
        state |= {f"tau.{tau}": count for tau, count in self.staleness.items()}
        return state | {f"{_RULE}{name}": value for name, value in self.rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        needed = {"value", "applied", *(f"{name}.{node}" for name in ("seen", "read") for node in self._seen)}
        arrays = [name for name in needed if name.startswith(("value", "read"))]
        if not needed <= state.keys() or any(np.shape(state[name]) != self.value.shape for name in arrays):
            raise ValueError(f"ServedVariable state must hold {', '.join(sorted(needed))}, arrays of shape {self.value.shape}")
        np.copyto(self.value, state["value"])
        self._applied = int(state["applied"])
        for node in self._seen:
            self._seen[node] = int(state[f"seen.{node}"])
            np.copyto(self._read[node], state[f"read.{node}"])
        self.staleness.clear()
        self.staleness.update({int(name[4:]): int(count) for name, count in state.items() if name.startswith("tau.")})
        self.rule.load_state_dict({name[len(_RULE) :]: value for name, value in state.items() if name.startswith(_RULE)})


# a scratch array of 128 KiB in float32 stays in the second cache of a core beside the pieces that it is computed from
CHUNK: Final = 32 * 1024
EPSILON: Final = 1e-7
_MEAN_SQUARE = "mean_square"


class DCASGD(AsyncPS):
    """AsyncPS that corrects a stale gradient towards the one at the present parameters (Zheng et al., "Asynchronous
    stochastic gradient descent with delay compensation", ICML 2017):

        w <- w + rule(g + lambda_t g g (w - w_i)),  with w_i as worker i read it last, products by element,

    a Taylor expansion around w_i in which lambda_t g g stands for the Hessian's diagonal. `codec_extra_parameters`:
    "adaptive" (True): lambda_t = lambda / sqrt(MS + 1e-7) with MS <- ms MS + (1 - ms) g g, by element; else lambda_t = lambda;
    "lambda" (2.0, or 0.04 where not adaptive), at least 0; "ms" (0.95), from 0 to below 1. lambda = 0 is AsyncPS, and one
    worker alone trains as with the rule itself, for any lambda.

    Everything else is as with AsyncPS. Memory of the server: 4n more.
    """

    traits = replace(AsyncPS.traits, parameters=("staleness_aware", "adaptive", "lambda", "ms"))

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        adaptive = bool(GlobalSettings.get_params("adaptive", True))
        given = GlobalSettings.get_params("lambda", 2.0 if adaptive else 0.04)
        self._lambda = arguments.number(self, "lambda", given, 0)
        self._decay = arguments.number(self, "ms", GlobalSettings.get_params("ms", 0.95), 0, 1) if adaptive else None
        self._mean_square: Array | None = None
        self._corrections = 0
        self._compensated: Array = np.empty(0)
        self._scratch: Array = np.empty(0)

    def apply(self, served: ServedVariable, node: int, gradient: Array) -> None:
        if self._compensated.size != gradient.size:
            self._compensated = np.empty(gradient.size, gradient.dtype)
            self._scratch = np.empty(min(gradient.size, CHUNK), gradient.dtype)
        served.apply(node, gradient, self._compensate if self._lambda else None)

    def _compensate(self, gradient: Array, present: Array, read: Array) -> Array:
        """Return g + lambda_t g g (w - w_i), on flat arrays."""
        if self._decay is not None and self._mean_square is None:
            self._mean_square = np.zeros(gradient.size, gradient.dtype)
        result = self._compensated
        # counted afresh after a restart: squares that a flush sets to 0 change no bit
        self._corrections += 1
        for start in range(0, gradient.size, CHUNK):
            part = slice(start, start + CHUNK)
            g, out = gradient[part], result[part]
            square = np.multiply(g, g, out=self._scratch[: g.size])
            np.subtract(present[part], read[part], out=out)
            np.multiply(out, square, out=out)
            np.multiply(out, self._lambda, out=out)
            if self._mean_square is not None and self._decay is not None:
                mean = self._mean_square[part]
                np.multiply(square, 1 - self._decay, out=square)
                np.multiply(mean, self._decay, out=mean)
                np.add(mean, square, out=mean)
                flush_squares_to_zero(self._corrections, self._decay, mean)
                np.add(mean, EPSILON, out=square)
                np.divide(out, np.sqrt(square, out=square), out=out)
            np.add(out, g, out=out)
        return result

    def state_dict(self) -> dict[str, Any]:
        own = {} if self._mean_square is None else {_MEAN_SQUARE: self._mean_square}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name != _MEAN_SQUARE})
        if _MEAN_SQUARE in state and self.node_id == Parameter_Server:
            self._mean_square = np.array(state[_MEAN_SQUARE])

    def dispose(self) -> None:
        super().dispose()
        self._mean_square = None
        self._compensated = self._scratch = np.empty(0)

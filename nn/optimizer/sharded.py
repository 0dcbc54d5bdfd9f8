"""Parallel stochastic gradient descent where each worker applies the rule to its own part of the parameters."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, Stretches
from nn.optimizer.interface import Exchange
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from nn.value.store import VariableStore
from nn.value.value import Variable

ALIGNMENT = 16
"""Shards begin at a multiple of this many elements, a cache line of float32."""


class ShardExchange(Exchange, Protocol):
    """An exchange of shards: id s < `shards` stands for the gradient of shard s, which worker s gets merged, and id
    `shards` + s for its parameters, which worker s puts once and all others get. Where it has a `read`, which gives the result
    of `get` in stretches, the rule takes that.
    """

    @property
    def shards(self) -> int:
        """Number of workers, and so of shards."""

    @property
    def shard(self) -> int:
        """Number of this worker's shard, from 0."""


class ShardedPSGDOptimizer(ExchangingOptimizer):
    """PSGDOptimizer with a sharded rule (ZeRO stage 1: Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054).

    The parameter vector is cut into one shard per worker. In a batch the gradient of shard s is merged on worker s alone, which
    applies the rule to that shard and sends the new parameters to all others. n workers transfer the bytes of a ring, compute
    1/n of the rule each, and keep 1/n of its slots; the parameters have the bits of PSGDOptimizer with the codec Plain. A shard
    travels as soon as backward has completed it. `store.gradients` keeps, for callbacks, those of the worker's last block.

    The rule must change each parameter by its own numbers alone (`rule.elementwise`).

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.ShardedPSGDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'gradients')
    """

    by_shard: ClassVar[bool] = True
    takes_sums: ClassVar[bool] = True

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: ShardExchange | None = None) -> None:
        # Before anything is built, as the rule may be given a part of the vector only.
        self.admit(rule)
        super().__init__(rule, store, exchange)
        # The base class has refused None; a type checker does not know.
        self._count, self._own = (1, 0) if exchange is None else (exchange.shards, exchange.shard)
        bounds = shard_bounds(store.values.size, self._count)
        self._cuts = [slice(start, end) for start, end in pairwise(bounds)]
        self._values = [store.values[cut] for cut in self._cuts]
        self._gradients = [store.gradients[cut] for cut in self._cuts]
        # Empty shards of a short vector are put by no worker.
        self._others = [s for s in range(self._count) if s != self._own and self._values[s].size]
        self._shards_of: list[list[int]] = []
        end = 0
        for variable in store.variables:
            start, end = end, end + variable.value.size
            # A variable may lie in several shards, and a shard holds parts of several variables.
            self._shards_of.append([s for s, cut in enumerate(self._cuts) if max(start, cut.start) < min(end, cut.stop)])
        self._parts = [sum(s in shards for shards in self._shards_of) for s in range(self._count)]
        self._missing = list(self._parts)  # variables with gradients that the shard of the running block still lacks
        # The block under which the own parameters are put: the last that was computed.
        self._block = -1
        self._gathered: dict[str, Array] = {}
        self._gathered_step = -1
        read: Callable[[int], Array | Stretches] | None = getattr(exchange, "read", None)
        # A rule with an `update` of its own takes an array.
        self._read = read if rule.reads_stretches else None

    @classmethod
    def admit(cls, rule: IGradientDescent) -> None:
        """Check that the rule can be given a part of the vector; raise ValueError naming both where not."""
        if not rule.elementwise:
            limits = [name for name in ("clip_norm", "clip_variable_norm") if getattr(rule, name) is not None]
            if rule._decays is not None:
                limits.append("weight_decay")
            reason = f"with '{limits[0]}'" if limits else "whose step depends on whole variables"
            raise ValueError(
                f"{cls.__name__} needs a rule that changes each parameter by its own numbers alone, "
                f"got {type(rule).__name__} {reason}; use PSGDOptimizer"
            )

    @property
    def buffers_id(self) -> int:
        return 2 * self._count

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        missing = self._missing
        for shard in self._shards_of[variable.id]:
            missing[shard] -= 1
            if not missing[shard]:
                # Setting an attribute takes several times as long as reading it, and most workers have one block.
                if self._block != block_id:
                    self._block = block_id
                missing[shard] = self._parts[shard]
                self.partners.put(shard, block_id, self._gradients[shard])

    def finish_batch(self) -> Iterator[int]:
        own, values = self._own, self._values[self._own]
        if values.size:
            yield from self._ready(own)
        if self._read is None or not values.size:
            self.rule.update(values, self.partners.get(own) if values.size else values)
        else:
            self.rule.update_from(values, self._read(own))
        yield from self._all_gather(values, self._values)
        yield from self.merge_buffers()
        self.store.apply_changes()

    def gather_state(self) -> Iterator[int]:
        """Bring the slots of all shards together, in a batch of its own that all workers begin; waits as `finish_batch` does.

        Until the next update `state_dict` then returns the state of the rule for the whole vector, which any number of workers,
        and PSGDOptimizer, can go on from.
        """
        slots = {name: slot for name, slot in self.rule.state_dict().items() if isinstance(slot, np.ndarray)}
        self._gathered = {name: np.empty_like(self.store.values) for name in slots}
        if slots:
            # All slots in one message.
            own = np.concatenate(list(slots.values()))
            parts = [np.empty(len(slots) * values.size, values.dtype) for values in self._values]
            np.copyto(parts[self._own], own)
            yield from self._all_gather(own, parts)
            for cut, part in zip(self._cuts, parts, strict=True):
                for whole, slot in zip(self._gathered.values(), part.reshape(len(slots), -1), strict=True):
                    np.copyto(whole[cut], slot)
        self._gathered_step = self.rule._step_number

    def state_dict(self) -> dict[str, Array | int | float]:
        state = super().state_dict()
        # After another step what was gathered is out of date.
        if self._gathered_step == self.rule._step_number:
            state.update((f"rule:{name}", slot) for name, slot in self._gathered.items())
        return state

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over the own part of a state for the whole vector, or one of the own shard.

        Raises ValueError where names or lengths do not fit.
        """
        cut, whole = self._cuts[self._own], self.store.values.size
        own: dict[str, Array | int | float] = {}
        for name, value in state.items():
            if isinstance(value, np.ndarray) and value.ndim == 1:
                if len(value) not in (whole, cut.stop - cut.start):
                    raise ValueError(
                        f"{type(self).__name__} state '{name}' must be a vector for all {whole} parameters or for the "
                        f"{cut.stop - cut.start} of shard {self._own} of {self._count}, got {len(value)} elements"
                    )
                value = value[cut] if len(value) == whole else value
            own[name] = value
        super().load_state_dict(own)
        self._gathered, self._gathered_step = {}, -1
        # An interrupted batch may have left counts behind.
        self._missing = list(self._parts)

    def _ready(self, place: int) -> Iterator[int]:
        while not self.partners.ready(place):
            yield place

    def _all_gather(self, own: Array, targets: list[Array]) -> Iterator[int]:
        """Put the part of the own shard and write the parts that the others put into `targets`."""
        if self._count > 1 and own.size:
            self.partners.put(self._count + self._own, self._block, own)
        for shard in self._others:
            yield from self._ready(self._count + shard)
            np.copyto(targets[shard], self.partners.get(self._count + shard))


def shard_bounds(size: int, count: int) -> list[int]:
    """Return where the `count` shards of a vector begin, and its end; the last ones of a short vector are empty."""
    # Rounded up, and on to whole cache lines.
    length = -(-size // count)
    length += -length % ALIGNMENT
    return [min(size, number * length) for number in range(count)] + [size]

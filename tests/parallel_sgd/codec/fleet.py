"""Workers whose codecs hand their packets to each other as they are, so that many trainings can be run in little time.

Models, optimizers, rules and codecs are the real ones. Left out is the wire, and where all workers decode the same packets of
all, the first one does it for the others: that they would get the same bits is LAW-7, which every codec is held to elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.gradient_descent import IGradientDescent
from nn.model import Model
from nn.optimizer import OpContainer
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.compose import AllToAll, Composition
from parallel_sgd.codec.pipeline import PowerSGD
from parallel_sgd.profiles import IIDBlockAssignment

Array = NDArray[Any]
Samples = tuple[Array, Array]
Dense = Codec.of(AllToAll(), name="Dense")
SMALL = 1024


class Port:
    """The exchange of one worker (`nn.optimizer.Exchange`)."""

    def __init__(self, fleet: Fleet, node: int) -> None:
        self._fleet, self._node = fleet, node

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        view = content.view()
        view.flags.writeable = False
        codec = self._fleet.codecs[self._node][variable_id]
        self._fleet.post(variable_id, codec.update_blocks(BlockWeight(view, block_id)))

    def ready(self, variable_id: int) -> bool:
        return self._fleet.result(self._node, variable_id) is not None

    def get(self, variable_id: int) -> Array:
        result = self._fleet.result(self._node, variable_id)
        assert result is not None
        return result


class Fleet:
    """One block for each worker. Biases travel dense. `raw` are the bytes of all arrays that were sent."""

    def __init__(
        self, models: Sequence[Model], kind: type[Codec], container: OpContainer, parameters: Mapping[Hashable, Any], seed: int
    ) -> None:
        self.models, self.seed, self.raw = models, seed, 0
        self._speaks = [one_speaks_for_all(kind), True]  # of large variables, of small ones
        self._results: dict[tuple[int, int], Array] = {}
        self._queue: list[tuple[int, int, object]] = []
        self._jobs: list[Any] = []
        self.codecs: list[list[Codec]] = []
        self.optimizers = []
        for node, model in enumerate(models):
            values = [variable.value for variable in model.store.variables]
            rule: type[IGradientDescent] | Any = container.rule
            self._small = [value.size < SMALL for value in values]
            with GlobalSettings.use(IIDBlockAssignment(len(models)), parameters, values=values, rule=rule) as job:
                job.seed = seed
                self._jobs.append(job)
                self.codecs.append([])
                for job.variable, small in enumerate(self._small):
                    self.codecs[-1].append((Dense if small else kind)(node))
            self.optimizers.append(container.build(model.store, Port(self, node)))

    def result(self, node: int, variable: int) -> Array | None:
        """What a worker has got for a variable in this batch, if it is there."""
        who = 0 if self._speaks[self._small[variable]] else node
        found = self._results.get((who, variable))
        if found is None:
            found = self.codecs[who][variable].get_result()
            if found is not None:
                self._results[who, variable] = found
        return found

    def post(self, variable: int, packets: Any) -> None:
        """Queue what a codec returns."""
        if packets is None:
            return
        for packet in (packets,) if isinstance(packets, netEncapsulation) else packets:
            content = packet.content
            self.raw += len(packet.targets) * sum(part.nbytes for part in content if isinstance(part, np.ndarray))
            frozen = tuple(_frozen(part) for part in content)
            heard = [0] if self._speaks[self._small[variable]] else packet.targets
            self._queue += [(target, variable, frozen) for target in packet.targets if target in heard]

    def step(self, epoch: int, batch: int, samples: Sequence[Samples]) -> None:
        """Train one batch, counted from 0; every worker has its samples."""
        self._results.clear()
        for job in self._jobs:
            job.step = (epoch, batch)
        waiting: list[Iterator[int]] = []
        for node, (model, (x, y)) in enumerate(zip(self.models, samples, strict=True)):
            optimizer = self.optimizers[node]
            optimizer.begin_batch()
            model.compute_gradients(
                x,
                y,
                lambda variable, node=node: self.optimizers[node].gradient_ready(variable, node),
                key=(self.seed, epoch, batch, node),
            )
            waiting.append(optimizer.finish_batch())
        while waiting:
            waiting = [process for process in waiting if next(process, None) is not None]
            self._deliver()

    def _deliver(self) -> None:
        while self._queue:
            queue, self._queue = self._queue, []
            for target, variable, content in queue:
                self.post(variable, self.codecs[target][variable].receive_blocks(content))


def one_speaks_for_all(kind: type[Codec]) -> bool:
    """Whether all workers make the same of the same packets, which each sends to all, in one round."""
    composition = getattr(kind, "composition", None)
    if not isinstance(composition, Composition) or not kind.traits.agrees:
        return False
    return type(composition.exchange) is AllToAll and composition.local is None and not isinstance(composition.up, PowerSGD)


def _frozen(part: Any) -> Any:
    """An array that its receiver can only read."""
    if isinstance(part, np.ndarray):
        part = part.view()
        part.flags.writeable = False
    return part

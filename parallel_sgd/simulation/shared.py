"""State that workers share while they are in equal states: one model, one rule, one update for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, JoinedVectors
from nn.model import Model
from nn.optimizer import OpContainer
from nn.optimizer.interface import Exchange
from nn.optimizer.parallel_sgd import PSGDOptimizer
from nn.value import Variable
from nn.value.store import VariableStore

from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..codec.choice import choose_codecs
from ..codec.compose import Composed
from ..codec.interfaces import Codec
from ..engine.plan import WorkerPlan
from .parcel import is_fixed


class Diverged(RuntimeError):
    """Error when workers that share a state got results of different bits."""


class SharedState:
    """Parameters, rule and number of updates of all workers of a job that are in equal states.

    The first worker that has the results of a batch applies them; each other one compares its own with them, bit for bit. None
    can be further ahead, since the results of a batch need the gradients of all.

    Args:
        rule: the rule of the job.
        distinct: most blocks of a batch of which gradients are computed; the others have those of one of these. None: all.
        learns: whether there are gradients of each batch, and updates; without, all batches have those of the first.

    Attributes:
        steps: number of updates.
        version: number of different parameters so far.
    """

    def __init__(self, rule: IGradientDescent, distinct: int | None = None, learns: bool = True) -> None:
        self.rule = rule
        self.steps = 0
        self.version = 0
        self._distinct, self._learns = distinct, learns
        self._kept: dict[int, tuple[int, dict[int, Array]]] = {}
        self._results: list[Array] = []

    def keep(self, block: int, place: int, gradient: Array) -> None:
        """Keep a gradient for other blocks, if they need not have their own.

        Args:
            block: the block.
            place: place of the vector.
            gradient: the vector, which nothing writes to.
        """
        if self._distinct is not None:
            # blocks that share a slot have the gradients of the one that came first since the last update
            slot = block % self._distinct
            if slot not in self._kept or self._kept[slot][0] != self.version:
                self._kept[slot] = self.version, {}
            self._kept[slot][1][place] = gradient

    def kept(self, block: int) -> dict[int, Array] | None:
        """Return the gradients that a block may have, by place in the order of backward; None: they have to be computed."""
        if self._distinct is None:
            return None
        version, gradients = self._kept.get(block % self._distinct, (-1, {}))
        return gradients if version == self.version else None

    def apply(self, step: int, results: Sequence[Array], store: VariableStore) -> None:
        """Apply the results of a batch, or compare them with those that were applied.

        Args:
            step: number of updates of the worker before this one.
            results: the merged gradients, a vector for each place.
            store: the variables.

        Raises: Diverged.
        """
        # a study of times alone: only the count tells workers apart
        if not self._learns:
            self.steps = max(self.steps, step + 1)
            return
        if step == self.steps:
            # what nothing can write to any more is the same wherever it is met again, without a look at its numbers
            self._results = [result if is_fixed(result) else np.array(result) for result in results]
            self.steps += 1
            self.version += 1
            if self.rule.reads_stretches:
                joined = JoinedVectors(self._results) if len(self._results) > 1 else self._results[0].reshape(-1)
                self.rule.update_from(store.values, joined)
            else:
                # their own gradients have been put as copies, so their vector is free for the merged ones
                np.concatenate([result.reshape(-1) for result in self._results], out=store.gradients)
                self.rule.update(store.values, store.gradients)
            return
        # a worker is at most one update behind; identity first, for arrays that nothing can write to need no look
        same = step == self.steps - 1 and all(
            mine is its or _same_bits(mine, its) for mine, its in zip(results, self._results, strict=True)
        )
        if not same:
            raise Diverged(
                f"Workers that share a state got results of different bits in update {step + 1}: their codec does not agree, "
                f"although it says so; simulate with shared=False"
            )


def _same_bits(one: Array, other: Array) -> bool:
    """Tell if two arrays have the same bits: NaN is the same as itself, and 0 is not -0."""
    # as integers: floats would take 0 for -0, and no NaN for itself
    kind = f"u{one.itemsize}"
    return one.dtype == other.dtype and np.array_equal(one.view(kind), other.view(kind))


class SharedOptimizer(PSGDOptimizer):
    """Optimizer of one of the workers that share a state.

    Args:
        state: the shared one.
        store: the variables of the shared model.
        exchange: the exchange of the worker.
    """

    def __init__(self, state: SharedState, store: VariableStore, exchange: Exchange | None) -> None:
        super().__init__(state.rule, store, exchange)
        self._state, self._steps = state, 0

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Put a copy of the gradients: the next worker overwrites those of the model.

        Raises: Diverged when the parameters are ahead of the worker.
        """
        place = self._places[variable.id]
        self._missing[place] -= 1
        if not self._missing[place]:
            self._missing[place] = self._counts[place]
            if self._steps != self._state.steps:
                raise Diverged("A worker computes with parameters of another update: simulate with shared=False")
            # the model is one for all workers, so its vectors are overwritten by the next worker's backward
            gradient = self._gradients[place].copy()
            gradient.flags.writeable = False  # so that a packet may have it as it is
            self._state.keep(block_id, place, gradient)
            self.partners.put(place, block_id, gradient)

    def reuse(self, block_id: int) -> Callable[[], None] | None:
        """Return a function that puts the gradients of another block for one that need not have its own; else None."""
        kept = self._state.kept(block_id)
        return None if kept is None else partial(self._put, block_id, kept)

    def _put(self, block_id: int, gradients: Mapping[int, Array]) -> None:
        for place, gradient in gradients.items():
            self.partners.put(place, block_id, gradient)

    def finish_batch(self) -> Iterator[int]:
        """Wait for every merged gradient, then apply the rule to all, unless another worker has done so."""
        yield from self.wait()
        dtype = self.store.dtype
        merged = [np.asarray(self.partners.get(place), dtype) for place in range(len(self._gradients))]
        self._state.apply(self._steps, merged, self.store)
        self._steps += 1


@dataclass(frozen=True)
class SharedContainer(OpContainer):
    """Container of the optimizers of workers that share a state.

    Args:
        state: the shared one.
    """

    state: SharedState | None = None

    def build(self, store: VariableStore, exchange: Exchange | None = None) -> SharedOptimizer:
        """Return the optimizer of one worker."""
        if self.state is None:
            raise ValueError("SharedContainer 'state' must be a SharedState, got None")
        return SharedOptimizer(self.state, store, exchange)


@dataclass(frozen=True)
class SharedPlan(WorkerPlan):
    """Plan of workers that share a state.

    Args:
        distinct: as of `SharedState`.
        learns: as of `SharedState`.
    """

    distinct: int | None = None
    learns: bool = True

    @cached_property
    def optimizer(self) -> OpContainer:
        """Optimizer of the workers; all that it builds share one state."""
        given = super().optimizer
        return SharedContainer(
            given.op_type, given.gd_type, given.gd_params, SharedState(given.rule(), self.distinct, self.learns)
        )


def can_share(plan: WorkerPlan, model: Model) -> bool:
    """Tell if all workers of a job are in equal states in every batch, as its parts say.

    Args:
        plan: the plan of the job.
        model: its model.
    """
    options = plan.options
    kinds = choose_codecs(plan.codec, plan.default_codec, len(model.store.variables))
    return (
        options.sync_type is SynchronizedSGD
        and options.op_type is PSGDOptimizer
        and plan.assignment.redundancy == 1
        and not options.callbacks
        and not model.store.buffers  # statistics of layers are those of each worker's own samples
        and all(kind.traits.agrees and _sends_gradients(kind) for kind in kinds)
    )


def _sends_gradients(kind: type[Codec]) -> bool:
    return not issubclass(kind, Composed) or kind.composition.send == "gradient"  # type: ignore[attr-defined]

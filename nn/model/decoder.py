"""Decoder of sequences that keeps keys and values, so that a new position costs one position; and draws from scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from nn import arguments
from nn.arguments import Settled
from nn.arrays import BATCH, LENGTH, Array, zeros
from nn.model.model import Model
from nn.operation.attention import Attention, CachedAttention, DropoutAttention
from nn.operation.broadcasting import Broadcasting
from nn.operation.elementwise import Elementwise
from nn.operation.index import Index, Lookup
from nn.operation.matmul import MatMul, TensorDot
from nn.operation.noise import DropoutOperation
from nn.operation.normalization import LayerNormalize, RMSNormalize
from nn.operation.operation import Mode, Operation
from nn.operation.rotary import Place, Rotary
from nn.plan.plan import Plan
from nn.threads import Team, blas_threads
from nn.value.graph import Graph, Placeholder
from nn.value.value import Constant, Node, Value, Variable

APART = (Broadcasting, Elementwise, LayerNormalize, RMSNormalize, DropoutOperation)
"""Operations that compute each position by itself, along the last axis at most."""
KEPT = 4
"""Plans that are kept: that of one position, and of other numbers those made last."""

#: Memory for the part of a value that belongs to the positions at hand, the value, and its axis of positions.
_Moving: TypeAlias = tuple[Array, Variable | Constant, int]


class CachedDecoder(Settled):
    """Decoder that is given sequences position by position, and gives the scores of the ids that follow.

    Keys and values of the positions before are kept, so that a position costs one row of work, and not a pass over the whole
    sequence. The scores are those of `model.predict` for the sequences so far.

    The model takes ids ``(batch, length)`` and gives scores ``(batch, length, vocabulary)``. Its positions meet in causal
    attention of a sequence to itself only, as in `Transformer`; functional models of your own may be of that kind, too.

    >>> model = nn.model.Transformer(vocabulary=50, length=16, rotary=True)
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> decoder = nn.model.CachedDecoder(model)
    >>> scores = decoder.scores([[3, 1, 4]])
    >>> scores = decoder.scores([[int(scores.argmax())]])
    >>> scores.shape, decoder.done
    ((1, 50), 4)

    Args:
        model: the model. Its weights should stay as they are until `restart`: keys and values of before belong to them.
        batch: number of sequences, which all have equally many positions.

    Raises ValueError for a model that is not set up, and one that is not of this kind, naming the layer.
    """

    def __init__(self, model: Model, batch: int = 1) -> None:
        self.model: Model = arguments.instance(self, "model", model, Model)
        self.batch = arguments.integer(self, "batch", batch, minimum=1)
        self._store = model.store
        self._moves = self._store.moves
        graph = model.graph
        shape, end = graph.placeholder.shape, graph.output.shape
        if len(graph.inputs) > 1 or len(graph.outputs) > 1 or len(shape) != 2 or len(end) != 3 or LENGTH in shape:
            raise ValueError(
                "CachedDecoder 'model' must take ids (batch, length) and give scores (batch, length, vocabulary), "
                f"got a model that makes {end} of {shape}"
            )
        self._graph, self._length = graph, shape[1]
        self._place = Place()
        self._team = Team(blas_threads())
        self._caches: dict[Node, tuple[Array, Array]] = {}
        self._parts: dict[int, tuple[Plan, list[_Moving]]] = {}
        self._moved = _depending(graph)
        self._weights: Plan | None = None
        self._computed: dict[Value, Constant] = {}
        self._read_weights()
        self._part(1)  # refuses models of other kinds

    @property
    def done(self) -> int:
        """The number of positions that each sequence has so far."""
        return self._place.done

    @property
    def length(self) -> int:
        """The most positions that a sequence can have."""
        return self._length

    def restart(self) -> None:
        """Begin anew, with empty sequences and the weights as they are now."""
        self._place.done = 0
        self._read_weights()

    def scores(self, ids: Any) -> Array:
        """Take the next ids of all sequences and return the scores for the ids that follow the last ones.

        Args:
            ids: whole numbers ``(batch, steps)``.

        Returns:
            The scores ``(batch, vocabulary)``, an array of its own.

        Raises:
            ValueError: for another shape, ids that the model does not have, and more positions than `length`.
        """
        given = np.asarray(ids)
        if given.ndim != 2 or len(given) != self.batch or not given.shape[1] or given.dtype.kind not in "iu":
            raise ValueError(
                f"CachedDecoder.scores() 'ids' must be whole numbers ({self.batch}, steps), got {given.dtype} {given.shape}"
            )
        if self.done + given.shape[1] > self._length:
            raise ValueError(
                f"CachedDecoder.scores() takes sequences of at most {self._length} positions, got {given.shape[1]} more "
                f"behind {self.done}; restart() begins anew"
            )
        if self._moves != self._store.moves:
            # Another model has taken over the memory of the variables, which the plans show.
            self._moves, self._weights = self._store.moves, None
            self._parts.clear()
            self._read_weights()
        return self._run(np.ascontiguousarray(given, self._store.dtype))

    def _read_weights(self) -> None:
        """Compute the values that depend on variables alone, such as a transposed kernel, once for all positions."""
        taken = [source for node in self._graph.nodes if node in self._moved for source in node.inputs]
        nodes = [source for source in dict.fromkeys(taken) if isinstance(source, Node) and source not in self._moved]
        if not nodes:
            return
        if self._weights is None:
            # A plan has an input, of which nothing depends here.
            self._weights = Plan(Graph(Placeholder((BATCH, 1)), nodes), [(1, 1)], self._store.dtype, training=False)
            # Each run writes to the same arrays.
            self._computed = dict(zip(nodes, map(Constant, self._weights.outputs), strict=True))
        self._weights.forward((zeros((1, 1), self._store.dtype),), Mode())

    def _run(self, ids: Array) -> Array:
        steps = ids.shape[1]
        plan, moving = self._part(steps)
        for part, source, axis in moving:
            whole = source.value if isinstance(source, Variable) else source.array
            np.copyto(part, whole[(slice(None),) * axis + (slice(self.done, self.done + steps),)])
        # A copy, as the next run writes to the same array.
        output = plan.forward((ids,), Mode())[0][:, -1].copy()
        # Behind the last operation: all of them count from the same position.
        self._place.done += steps
        return output

    def _part(self, steps: int) -> tuple[Plan, list[_Moving]]:
        """Return the plan for so many positions, and the arrays that follow the place of these."""
        if steps not in self._parts:
            if len(self._parts) == KEPT:
                # The plan of one position stays, since all that is generated needs it.
                self._parts.pop(next(each for each in self._parts if each > 1))
            moving: list[_Moving] = []
            entry = Placeholder((BATCH, steps))
            copies: dict[Value, Value] = {self._graph.placeholder: entry}
            for node in self._graph.nodes:
                if node not in self._moved:
                    continue
                operation = self._operation(node, copies)
                sources = [
                    copies[source] if source in copies else self._at(source, node, steps, moving) for source in node.inputs
                ]
                copies[node] = Node(operation, sources)
            output = copies[self._graph.output]
            if not isinstance(output, Node):
                raise ValueError("CachedDecoder 'model' must have an output that depends on its input")
            graph = Graph(entry, output)
            plan = Plan(graph, [(self.batch, steps)], self._store.dtype, training=False, team=self._team)
            self._parts[steps] = plan, moving
        return self._parts[steps]

    def _operation(self, node: Node, copies: dict[Value, Value]) -> Operation:
        """Return an operation that computes a node for the next positions; raise ValueError for one that takes others, too."""
        operation, first = node.operation, node.inputs[0]
        moved = [source for source in node.inputs if source in copies]
        ranks = {len(source.shape) for source in moved}
        if isinstance(operation, Lookup) and moved == [first]:
            return operation
        if min(ranks) > 2 and len(ranks) == 1 and first in copies:
            # Not of a class derived from them, which may compute something else.
            known = isinstance(operation, Attention) and type(operation) in (Attention, DropoutAttention) and operation.causal
            if known and len(node.inputs) == 3 and len(moved) == 3:
                if node not in self._caches:
                    heads = [(self.batch, each.shape[2], self._length, each.shape[3]) for each in node.inputs[1:]]
                    self._caches[node] = zeros(heads[0], self._store.dtype), zeros(heads[1], self._store.dtype)
                return CachedAttention(self._place, *self._caches[node])
            if isinstance(operation, Rotary):
                return Rotary(operation.base, self._place, self._length)
            alone = moved == [first]
            if isinstance(operation, MatMul) and alone and len(node.inputs[1].shape) == 2:
                return operation
            if isinstance(operation, Index) and operation.steps(first.shape) == slice(None):
                return operation  # a part of the features
            if isinstance(operation, TensorDot) and alone and len(first.shape) - operation.axes >= 2:
                return operation
        if min(ranks) > 2 and len(ranks) == 1 and isinstance(operation, APART):
            return operation
        behind = self._graph.nodes[self._graph.nodes.index(node) :]
        layer = next((each.describe() for later in behind for each in later.layers), type(self.model).__name__)
        raise ValueError(
            "CachedDecoder 'model' must be one with positions that meet in causal attention only, without masks; "
            f"{type(operation).__name__} in {layer} is not known to be such"
        )

    def _at(self, source: Value, node: Node, steps: int, moving: list[_Moving]) -> Value:
        """Return a value that is there already; of one with an axis of positions a part that follows the place."""
        source = self._computed.get(source, source)
        axis = len(source.shape) - len(node.shape) + 1
        if not isinstance(source, (Variable, Constant)) or not isinstance(node.operation, Broadcasting):
            return source
        if axis < 0 or source.shape[axis] == 1:
            return source
        part = zeros((*source.shape[:axis], steps, *source.shape[axis + 1 :]), self._store.dtype)
        moving.append((part, source, axis))
        return Constant(part)


def continued(decoder: CachedDecoder, ids: Array, count: int, pick: Picker) -> Iterator[Array]:
    """Yield `count` times the next ids ``(batch,)`` of sequences.

    Where a sequence is as long as the decoder can have it, the decoder begins anew with the last half of it.

    Args:
        decoder: at its beginning.
        ids: the beginnings of the sequences ``(batch, steps)``.
        count: how many ids follow.
        pick: choice of ids by their scores.
    """
    recent = ids[:, -decoder.length :]
    scores = decoder.scores(recent)
    for number in range(count):
        following = pick(scores)
        yield following
        if number + 1 < count:
            recent = np.concatenate([recent, following[:, None]], axis=1)[:, -decoder.length :]
            if decoder.done == decoder.length:
                decoder.restart()
                scores = decoder.scores(recent[:, -max(1, decoder.length // 2) :])
            else:
                scores = decoder.scores(following[:, None])


class Picker:
    """Choice of an id by scores: the best one, or a draw from softmax(scores / temperature) of the better ones.

    Args:
        temperature: below 1 more certain, above 1 less; 0: always the best.
        top_k: number of best ids that may be drawn; None: all.
        top_p: share of the probability that the ids which may be drawn have at least, the best of them first.
        random: source of the draws.
    """

    def __init__(self, temperature: float, top_k: int | None, top_p: float, random: np.random.Generator) -> None:
        self._temperature = arguments.number("generate()", "temperature", temperature, 0)
        self._top_k = None if top_k is None else arguments.integer("generate()", "top_k", top_k, minimum=1)
        self._top_p = arguments.number("generate()", "top_p", top_p, 0, open_low=True)
        if self._top_p > 1:
            raise ValueError(f"generate() 'top_p' must be a number > 0 and <= 1, got {top_p}")
        self._random = random

    def __call__(self, scores: Array) -> Array:
        """Return an id for each row of scores ``(batch, vocabulary)``, which is none with a score of minus infinity.

        Raises FloatingPointError where the greatest score of a row is not finite.
        """
        greatest = scores.max(axis=1, keepdims=True)
        if not np.isfinite(greatest).all():
            row = int(np.argmin(np.isfinite(greatest)))
            raise FloatingPointError(
                f"generate() must have finite scores to pick an id by, got {greatest[row, 0]:g} as the greatest of sample {row}"
            )
        if not self._temperature:
            return np.asarray(scores.argmax(axis=1))
        scaled = scores.astype(np.float64)
        scaled -= greatest  # before the division: a low temperature overflows nothing
        scaled /= self._temperature
        if self._top_k is not None and self._top_k < scaled.shape[1]:
            worse = np.argpartition(-scaled, self._top_k - 1, axis=1)[:, self._top_k :]
            np.put_along_axis(scaled, worse, -np.inf, axis=1)
        if self._top_p < 1:
            # Stable, so that of equal scores those of lower ids stay, on any machine.
            order = np.argsort(-scaled, axis=1, kind="stable")
            chances = np.exp(np.take_along_axis(scaled, order, axis=1))
            before = chances.cumsum(axis=1) - chances
            # Nothing stands before the best one, so that it stays however small the share is.
            worse = np.where(before < self._top_p * chances.sum(axis=1, keepdims=True), 0, -np.inf)
            np.put_along_axis(scaled, order, np.take_along_axis(scaled, order, axis=1) + worse, axis=1)
        # The largest of the scores plus Gumbel noise is a draw from their softmax.
        return np.asarray((scaled + self._random.gumbel(size=scaled.shape)).argmax(axis=1))


def _depending(graph: Graph) -> set[Value]:
    """Return the input of a graph and all nodes that depend on it."""
    found: set[Value] = {graph.placeholder}
    for node in graph.nodes:
        if any(source in found for source in node.inputs):
            found.add(node)
    return found

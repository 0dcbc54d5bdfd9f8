"""Merge rules beyond means: votes, rules that a few wrong workers cannot move far, an optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline.stage import gathered, room_for, scattered
from parallel_sgd.codec.traits import Scope
from parallel_sgd.engine.block_tree import reduce_tree

from .merge import MergeRule, Round, WeightedMean, tree_sum, weighted_mean


class Vote(MergeRule):
    """Vote on each element, +1 or -1 as most workers say: sign(sum_i sign(x_i)). 0 counts as positive, and so does a tie.

    Every worker has one vote, however many blocks it has. Bernstein et al., "signSGD with majority vote is communication
    efficient and fault tolerant", 2019. Learning rates are those of sign descent, 1e-4 to 1e-3.
    """

    votes: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        for part in parts:
            # 0 and a tie count as +1, so that the result has signs alone, as the paper's
            np.copyto(part, np.where(part < 0, part.dtype.type(-1), part.dtype.type(1)))
        total = tree_sum(parts)
        np.copyto(total, np.where(total < 0, total.dtype.type(-1), total.dtype.type(1)))
        return total


CHUNK: Final = 1 << 15


class TrimmedMean(MergeRule):
    """Mean over workers, for each element, without the `trim` largest and the `trim` smallest values.

    Yin et al., "Byzantine-robust distributed learning: towards optimal statistical rates", 2018. Bears `trim` wrong workers.

    Raises: TypeError, ValueError unless trim is an integer >= 0; ValueError in a job of no more than 2 trim workers.
    """

    def __init__(self, trim: int = 1) -> None:
        self.trim = arguments.integer(self, "trim", trim, minimum=0)
        self.fewest = 2 * self.trim + 1

    def _trimmed(self, count: int) -> int:
        if count <= 2 * self.trim:
            raise ValueError(f"{type(self).__name__} without {self.trim} values at each end leaves nothing of {count} workers")
        return self.trim

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        trim, result = self._trimmed(len(parts)), parts[0]
        for start in range(0, result.size, CHUNK):
            piece = slice(start, start + CHUNK)
            # a stack of pieces stays in the cache; a stack of whole vectors would be the memory of all workers again
            values = np.stack([part[piece] for part in parts])
            values.sort(axis=0)
            np.mean(values[trim : len(parts) - trim], axis=0, out=result[piece])
        return result


class Median(TrimmedMean):
    """Median over workers, for each element; of an even number the mean of the two in the middle.

    Yin et al., 2018, as `TrimmedMean`. Bears wrong workers as long as they are fewer than half.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def _trimmed(self, count: int) -> int:
        # all but the middle one, or the middle two
        return (count - 1) // 2


class Krum(MergeRule):
    """The one gradient that is nearest to its W - f - 2 nearest ones; with `keep` > 1 the mean of that many, chosen so.

    Nearest by the sum of squared distances, taken in float64 over all variables, as in the paper: its codec has the scope
    "model". Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", 2017.

    Args:
        faulty: f, how many wrong workers the rule bears, of W >= 2 f + 3.
        keep: how many vectors the mean is taken of, at most W - f.

    Raises: TypeError, ValueError unless faulty >= 0 and keep >= 1 are integers; ValueError in a job of too few workers.
    """

    whole: ClassVar[bool] = True
    scope: ClassVar[Scope] = "model"

    def __init__(self, faulty: int = 1, keep: int = 1) -> None:
        self.faulty = arguments.integer(self, "faulty", faulty, minimum=0)
        self.keep = arguments.integer(self, "keep", keep, minimum=1)
        self.fewest = max(2 * self.faulty + 3, self.faulty + self.keep)

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        count = len(parts)
        near = count - self.faulty - 2
        _see_to(self, count)
        # stable: of equal scores the first worker's counts, on every node
        best = sorted(np.argsort(_scores(_distances(parts), near), kind="stable")[: self.keep].tolist())
        return weighted_mean([parts[i] for i in best], [1.0] * len(best))


class Bulyan(MergeRule):
    """The mean, for each number, of the beta = theta - 2 f values nearest to the median of theta = W - 2 f gradients, which
    `Krum` chooses one after the other, each among those that are left.

    So one number that an attacker moves far, within the distances that Krum bears, does no harm. Of m gradients that are left
    each is judged by its m - f - 2 nearest ones, at least one. Of values equally near to the median the lower worker's counts.
    Its codec has the scope "model". El Mhamdi et al., "The hidden vulnerability of distributed learning in Byzantium", 2018.

    Args:
        faulty: f, how many wrong workers the rule bears, of W >= 4 f + 3.

    Raises: TypeError, ValueError unless faulty is an integer >= 0; ValueError in a job of too few workers.
    """

    whole: ClassVar[bool] = True
    scope: ClassVar[Scope] = "model"

    def __init__(self, faulty: int = 1) -> None:
        self.faulty = arguments.integer(self, "faulty", faulty, minimum=0)
        self.fewest = 4 * self.faulty + 3

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        count, faulty = len(parts), self.faulty
        _see_to(self, count)
        distances, left = _distances(parts), list(range(count))
        while len(left) > 2 * faulty:
            scores = _scores(distances[np.ix_(left, left)], max(1, len(left) - faulty - 2))
            # the first of equal scores, on every node
            left.pop(int(np.argmin(scores)))
        chosen = [parts[i] for i in range(count) if i not in left]
        nearest, result = len(chosen) - 2 * faulty, parts[0]
        for start in range(0, result.size, CHUNK):
            piece = slice(start, start + CHUNK)
            values = np.stack([part[piece] for part in chosen])
            away = np.abs(values - np.median(values, axis=0))
            # stable, so that ties are broken alike on every node
            places = np.argsort(away, axis=0, kind="stable")[:nearest]
            np.mean(np.take_along_axis(values, places, axis=0), axis=0, out=result[piece])
        return result


def _see_to(rule: MergeRule, count: int) -> None:
    # here, too: with a quorum, or after a loss, fewer contributions come than the job has workers
    if count < rule.fewest:
        raise ValueError(f"{rule!r} needs {rule.fewest} workers or more, got {count}")


def _distances(parts: Sequence[Array]) -> NDArray[np.float64]:
    """Return the squared distances between all vectors."""
    count = len(parts)
    distances = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            distances[i, j] = distances[j, i] = _squared_distance(parts[i], parts[j])
    return distances


def _scores(distances: NDArray[np.float64], near: int) -> NDArray[np.float64]:
    """Return, for each vector, the sum of its distances to the `near` nearest other ones."""
    # column 0 is a vector's distance to itself
    found: NDArray[np.float64] = np.sort(distances, axis=1)[:, 1 : near + 1].sum(axis=1)
    return found


def _squared_distance(a: Array, b: Array) -> float:
    total = 0.0
    for start in range(0, a.size, CHUNK):
        # in float64: differences of nearly equal vectors are squared
        difference = np.subtract(a[start : start + CHUNK], b[start : start + CHUNK], dtype=np.float64)
        total += float(difference @ difference)
    return total


class Adasum(MergeRule):
    """Adaptive sum a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2)), along the tree over workers.

    It is the sum of orthogonal vectors, and the vector itself of equal ones. Products are taken for each variable, in float64.

    Maleki et al., "Scaling distributed training with adaptive summation", 2021, for a power of two of workers; here the left
    half of an odd number is the larger one.
    """

    whole: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round | None = None) -> Array:
        return reduce_tree(parts, _adaptive_sum)


def _adaptive_sum(left: Array, right: Array) -> Array:
    common = _product(left, right)
    np.multiply(left, _share(common, _product(left, left)), out=left)
    np.multiply(right, _share(common, _product(right, right)), out=right)
    return np.add(left, right, out=left)


def _share(common: float, square: float) -> float:
    # a vector of zeros has no direction, and takes nothing away
    return 1 - common / (2 * square) if square else 1.0


def _product(a: Array, b: Array) -> float:
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


class ServerOpt(MergeRule):
    """Optimizer after the merge: a rule makes one step of the result of `merge`, which all workers add to their parameters.

    With `send="delta"` the rule takes minus the merged change of the parameters for the gradient: FedAvgM, FedAdam, FedYogi
    (Reddi et al., "Adaptive federated optimization", 2021), DiLoCo with Nesterov's momentum (Douillard et al., 2023); with
    SGD(1) it is federated averaging. With `send="gradient"` it is the optimizer of a parameter server; then the op_type
    is GradientAveragingOptimizer. The result is in both cases the parameters.

    Args:
        rule: the rule that makes the step, of its own for each vector. It must not decay weights: it sees none.
        merge: the merge rule before it; None: `WeightedMean()`.

    Raises: TypeError unless `rule` is a rule and `merge` a merge rule; ValueError for a rule with decay.
    """

    updates: ClassVar[bool] = True

    descends: bool

    def __init__(self, rule: IGradientDescent, merge: MergeRule | None = None) -> None:
        self.rule = self._rule = arguments.instance(self, "rule", rule, IGradientDescent)
        self.merge: MergeRule = WeightedMean() if merge is None else arguments.instance(self, "merge", merge, MergeRule)
        self.fewest = self.merge.fewest
        # it sees results, and no parameters that it could decay
        if rule.weight_decay:
            raise ValueError(f"ServerOpt 'rule' must have no weight_decay, got {rule.weight_decay}: it sees no parameters")
        if not rule.elementwise:
            raise ValueError(
                "ServerOpt 'rule' must change each parameter by its own numbers alone, got one that clips by norms"
            )
        self.descends = True
        self._step: Array = np.empty(0, np.float32)

    def use(self, send: str) -> None:
        # a change of parameters points downhill, a gradient uphill
        self.descends = send == "gradient"

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round) -> Array:
        merged = self.merge.combine(parts, weights, round_)
        if not self.descends:
            np.negative(merged, out=merged)
        self._step = room_for(merged, self._step)
        self._rule.write_change(merged, merged, self._step)  # without decay no rule looks at the parameters
        return self._step

    def state_dict(self) -> dict[str, Any]:
        return {**self._rule.state_dict(), **gathered({"merge": self.merge})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rule.load_state_dict(scattered({"merge": self.merge}, state))

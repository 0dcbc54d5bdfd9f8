"""Stages that shape the gradient before anything is left out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import isinf, sqrt
from typing import Any, ClassVar, Final

import numpy as np

from nn import arguments
from nn.extension import is_ours
from nn.gradient_descent import ADAMOptimizer, IGradientDescent, MomentumOptimizer, NesterovOptimizer
from nn.gradient_descent.numerics import norm
from parallel_sgd.codec.traits import Scope

from .stage import Draw, Reader, Stage, State, Vector, Writer, check_row, room_for

__all__ = ["AdamPrecond", "Clip", "GlobalClip", "GradientStage", "Momentum", "Nesterov"]


class GradientStage(Stage, passes={"transform": (2,)}, widened={"transform": 1}):
    """Stage that makes another vector of the gradient, writes nothing, and changes nothing where the vector arrives.

    Its declarations speak of the vector that it makes, which arrives exactly. It stands first in a pipeline. One that draws
    random numbers says `deterministic = False`.

    >>> class Noise(GradientStage):
    ...     deterministic = False
    ...     def transform(self, x, draw):
    ...         return x + draw.generator().normal(0, 0.1, x.size).astype("f4")
    """

    unbiased = True
    linear = True
    leads: ClassVar[bool] = True

    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        # alone, outside of a chain, it is the first of its side
        made = self.transform(x, draw if draw.place else draw._replace(place=1))
        if not is_ours(type(self)):
            # numbers of other types are rounded, as they would be on their way
            made = made.astype(np.float32, copy=False) if isinstance(made, np.ndarray) and made.dtype.kind == "f" else made
            check_row(self, "transform", made, x.size, exact=True)
        return made

    @abstractmethod
    def transform(self, x: Vector, draw: Draw) -> Vector:
        """Return the vector to send in place of the gradient `x`.

        Args:
            x: ``(n,)``, which may be empty and stays as it is.
            draw: keys the random numbers of this stage for this vector: others than those of any other stage, worker, variable
                or batch, and the same after a restart. `draw.generator(shared=True)` is the same on all workers.

        Returns: a vector that is valid until the next call.
        """

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[None, int]:
        return None, n

    def decode(self, values: Vector, side: None, n: int) -> Vector:
        # the vector arrives as it was made: there is nothing to undo
        return values


CHUNK: Final = 1 << 16


class Clip(GradientStage):
    """Clipping x <- x min(1, c / ||x||), with the Euclidean norm of this variable and c = norm / sqrt(workers).

    Pascanu et al., "On the difficulty of training recurrent neural networks", 2013. A sum of the gradients of N workers is
    about sqrt(N) times as long as one, so Lin et al., "Deep gradient compression", 2018, clip each at 1 / sqrt(N) of the limit
    of the sum.

    Args:
        norm: the limit of the norm of a sum of gradients, a number > 0.
        workers: how many gradients the sum has; 1 limits the gradient itself.

    Raises: TypeError, ValueError unless norm > 0 and workers is a positive integer.
    """

    def __init__(self, norm: float, workers: int = 1) -> None:
        self.norm = arguments.number(self, "norm", norm, 0, open_low=True)
        self.workers = arguments.integer(self, "workers", workers, minimum=1)
        self._result: Vector = np.empty(0, np.float32)

    def transform(self, x: Vector, draw: Draw | None = None) -> Vector:
        # norms in pieces that stay in the cache
        parts = [x[start : start + CHUNK] for start in range(0, x.size, CHUNK)]
        limit = self.norm / sqrt(self.workers)
        with np.errstate(over="ignore"):
            length = norm(parts)
        if isinf(length):  # squares above 3e38 need double precision
            length = norm(part.astype(np.float64) for part in parts)
        if length <= limit:
            # unchanged, and no copy, as nearly always once training runs
            return x
        if self._result.size != x.size:
            self._result = np.empty(x.size, np.float32)
        return np.multiply(x, limit / length, out=self._result)


class GlobalClip(Clip):
    """`Clip` by the norm of the whole gradient, which keeps its direction: all variables are multiplied by the same number.

    Arguments and errors are those of `Clip`; this is the clipping of Pascanu et al., 2013. Its codec has the scope "model".
    """

    scope: ClassVar[Scope] = "model"


class RuleStage(GradientStage):
    """Stage that sends the step which a rule of learning rate 1 subtracts from the parameters.

    `SGDOptimizer(learn_rate)` follows the merge. The bits and the state are those of the rule.
    """

    def __init__(self, rule: IGradientDescent) -> None:
        self._rule = rule
        self._result: Vector = np.empty(0, np.float32)

    def transform(self, x: Vector, draw: Draw | None = None) -> Vector:
        self._result = room_for(x, self._result)
        # a learning rate of 1: the step of the rule is the vector that is sent
        self._rule.write_change(x, x, self._result)  # without decay no rule looks at the parameters
        return np.negative(self._result, out=self._result)

    def state_dict(self) -> State:
        return dict(self._rule.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rule.load_state_dict(state)


class Momentum(RuleStage):
    """Momentum v <- momentum v + x, sends v: the heavy ball (Polyak, 1964) on every worker, for stages that omit something.

    Zheng et al., "Communication-efficient distributed blockwise momentum SGD with error-feedback", 2019, place it before the
    error feedback; the rule after the merge then has none of its own.

    Raises: TypeError, ValueError unless 0 <= momentum < 1.
    """

    def __init__(self, momentum: float = 0.9) -> None:
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        super().__init__(MomentumOptimizer(1.0, self.momentum))


class Nesterov(RuleStage):
    """Accelerated gradient v <- momentum v + x, sends x + momentum v (Nesterov, 1983; Sutskever et al., 2013), on every worker.

    As `Momentum` it belongs before stages that leave something out (Zheng et al., 2019).

    Raises: TypeError, ValueError unless 0 <= momentum < 1.
    """

    def __init__(self, momentum: float = 0.9) -> None:
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        super().__init__(NesterovOptimizer(1.0, self.momentum))


class AdamPrecond(RuleStage):
    """Direction of Adam (Kingma and Ba, 2015) on the worker's own moments, step t counted from 1:

        m <- beta1 m + (1 - beta1) x,  v <- beta2 v + (1 - beta2) x^2,
        sends (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    Its elements are about 1 in magnitude, so that a scale shared by a whole vector fits them. After the merge follows
    `SGDOptimizer(1e-3)`.

    Args:
        beta1: the decay of the mean m.
        beta2: the decay of the mean square v.
        epsilon: added to the root, so that small v do not make large steps.

    Raises: TypeError, ValueError unless 0 <= beta1, beta2 < 1 and epsilon > 0.
    """

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)
        super().__init__(ADAMOptimizer(1.0, self.beta1, self.beta2, self.epsilon))

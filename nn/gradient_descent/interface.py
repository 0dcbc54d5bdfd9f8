"""Base class of gradient-descent rules, which turn gradients into the change of the parameters."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import CACHE_LINE, Array, Shape, empty, zeros
from nn.extension import is_ours, renamed, shown, written
from nn.gradient_descent.numerics import clip_factor
from nn.gradient_descent.schedule import Schedule
from nn.threads import Team

CHUNK = 64 * 1024
"""Elements handled at a time: parameters, gradients, two slots and a scratch array of this size fit into an L2 of 1.25 MiB.
Where they do not, fewer calls into NumPy still gain more than the way through L3 costs."""

SHARED_CHUNK = 4 * CHUNK
"""The same in each of several threads, which meet at the interpreter's lock after every call into NumPy: a thread that finds it
taken wakes up some 30 us later, so that fewer calls save more than the caches."""

LEAST_SHARE = 2 * CHUNK
"""Elements that each of several threads must have."""

BESIDE = 16 * 1024
"""Elements that take other threads as long as this one needs for what it does beside the rule, but for their late begin."""

LEAST_SHARED = 4 * LEAST_SHARE
"""Shorter vectors are done before another thread has woken up."""

NORM_CHUNK = 32 * 1024
"""The same for norms; their last bits depend on it."""


class Stretches(Protocol):
    """A vector that is read in stretches from its beginning to its end, each of which lasts until the next one is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(length,)."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Array: ...


class JoinedVectors:
    """Arrays read as one vector, one behind the other: where they lie, but for stretches that go over an end."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._vectors = [array.reshape(-1) for array in arrays]
        self._ends = list(accumulate(map(len, self._vectors)))
        self.shape = (self._ends[-1],)

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, part: slice) -> Array:
        """Return a stretch with a beginning and an end, which may be that of a longer vector."""
        start, stop = part.start, min(part.stop, self._ends[-1])
        found = []
        # The first vector that ends behind the start.
        for place in range(bisect_right(self._ends, start), len(self._vectors)):
            vector, begin = self._vectors[place], self._ends[place] - len(self._vectors[place])
            # A slice beyond the end of a vector is cut off by NumPy.
            found.append(vector[max(start - begin, 0) : stop - begin])
            if stop <= self._ends[place]:
                break
        return found[0] if len(found) == 1 else np.concatenate(found)


class LearningRate(float):
    """The learning rate as `learning_rate` gives it: a number, which answers methods of Keras's variables by how it is set."""

    __slots__ = ()

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the word here for one of Keras."""
            return arguments.missing_attribute(self, name)

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        """Travel as the number."""
        return float, (float(self),)


keras_names = partial(
    arguments.also,
    learning_rate="learn_rate",
    clipvalue="clip_value",
    global_clipnorm="clip_norm",
    clipnorm="clip_variable_norm",
)
"""Decorator of a rule's constructor, which then takes these names of Keras, too, and those that it is given."""


class KernelDecay(Configurable, configured=True):
    """A weight decay that spares biases and norms: it holds for variables of two axes or more, the kernels and embeddings.

    A rule takes it in place of a number as `weight_decay`. It has to know the variables, so the rule works on the whole
    vector, which optimizers that exchange shards refuse.

    Args:
        rate: the decay of the variables that it holds for, at least 0.

    >>> rule, w = nn.gradient_descent.ADAMWOptimizer(0.1, weight_decay=nn.gradient_descent.KernelDecay(0.5)), np.ones(4)
    >>> rule.partition([3, 1], [(3, 1), (1,)])  # optimizers do: a kernel and a bias
    >>> rule.update(w, np.zeros(4))
    >>> w.tolist()
    [0.95, 0.95, 0.95, 1.0]
    """

    def __init__(self, rate: float) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)


class IGradientDescent(
    Configurable,
    configured=True,
    fixed=(
        "rate",
        "_step_number",
        "_factor",
        "_adjusts",
        "_slots",
        "_scratch",
        "_lanes",
        "_schedule",
        "_learn_rate",
        "_spared",
        "_place",
        "_decays",
    ),
    internal=("write_change", "update_from", "partition", "reads_stretches", "schedule", "spare"),
    settable=("team",),
):
    """A rule on flat vectors. Its state is plain arrays and numbers, which `state_dict` returns.

    A subclass names its arrays (one number per parameter) in `slots`, computes the numbers of a step in `begin_step`, and
    the increment of one chunk in `increment`.

    To add one: such a class beside its kin, its name and its word in `nn/gradient_descent/__init__.py`, its name in the
    table of nn/README.md, and a row in `tests/contract/nn_rows/rules.py`, which a test demands: it compares with the published
    formula as a plain loop. Running means that fade go through `numerics.flush_to_zero`, as those of the kin do. A rule that
    torch has, too, is compared with it by `tests/nn/golden.py`, which `python -m tests.nn.golden` computes anew.

    Every rule sees the gradients clipped by one of the last three arguments, at most one of which may be given, and then
    with the decay.

    Args:
        learn_rate: number from 0 on, or a `Schedule`; may be set at any time.
        weight_decay: adds weight_decay * w, the gradient of an L2 penalty, unless the rule has decay of its own
            (`decoupled`); a `KernelDecay` in its place spares biases.
        clip_value: limits each element to [-clip_value, clip_value]; None: no limit.
        clip_norm: scales the whole gradient to this Euclidean norm where it is longer (Pascanu et al., 2013).
        clip_variable_norm: does the same for each variable by itself.

    Raises: ValueError or TypeError naming the argument that is out of range, or those that do not go together.

    >>> class SignDescent(nn.gradient_descent.IGradientDescent):
    ...     def increment(self, value, gradient, out, *slots):
    ...         np.multiply(np.sign(gradient), -self.rate, out=out)
    >>> rule, w = SignDescent(0.5), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.tolist()
    [0.5, 2.5]
    """

    slots: tuple[str, ...] = ()
    """Names of the arrays that the rule keeps."""

    decoupled: ClassVar[bool] = False
    """Whether `increment` itself applies `weight_decay`, so that nothing is added to the gradient."""

    concurrent: ClassVar[bool] = False
    """Whether chunks may be computed at the same time, as `increment` changes nothing but its arguments. The statement of
    a class does not count for its subclasses."""

    step: int = shown("_step_number")
    """The number of the step that is computed, from 1; how many there were, between two."""

    _step_number: int = 0

    rate: float = 0.0
    """The learning rate of the step."""

    _slots: dict[str, Array]
    _scratch: Array
    _lanes: list[Array]

    team: Team | None = None
    """Threads that are free, while a rule works on a long vector, and may take shares of it."""

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        self.learn_rate = learn_rate
        # None where the decay holds for all variables.
        self._decays = weight_decay if isinstance(weight_decay, KernelDecay) else None
        given_decay = weight_decay.rate if isinstance(weight_decay, KernelDecay) else weight_decay
        self.weight_decay = arguments.number(self, "weight_decay", given_decay, 0)
        self.clip_value = self._limit("clip_value", clip_value)
        self.clip_norm = self._limit("clip_norm", clip_norm)
        self.clip_variable_norm = self._limit("clip_variable_norm", clip_variable_norm)
        limits = {"clip_value": clip_value, "clip_norm": clip_norm, "clip_variable_norm": clip_variable_norm}
        given = [f"'{name}'" for name, limit in limits.items() if limit is not None]
        if len(given) > 1:
            raise ValueError(f"{type(self).__name__} takes {' or '.join(given)}, got {'both' if len(given) == 2 else 'all'}")
        self._step_number = 0
        self.rate = 0.0
        self._factor = 1.0
        self._factors: list[tuple[slice, float]] = []
        self._variables: list[slice] = []
        self._spared: list[slice] | None = None
        self._place = 0
        self._adjusts = False
        self._slots = {}
        # Its rows: the change, the adjusted gradient, and what `spare` gives.
        self._scratch = np.empty((3, 0))
        self._lanes = []
        self._proven = is_ours(type(self))

    @property
    def learn_rate(self) -> float:
        """The learning rate of the next step. Setting a number or a schedule replaces the one before."""
        if self._schedule is None:
            return self._learn_rate
        return arguments.number(self._schedule, "rate", self._schedule(self._step_number), 0)

    @learn_rate.setter
    def learn_rate(self, value: float | Schedule) -> None:
        self._schedule = value if isinstance(value, Schedule) else None
        if not isinstance(value, Schedule):
            self._learn_rate = arguments.number(self, "learn_rate", value, 0)

    @property
    def learning_rate(self) -> float:
        """`learn_rate`, by Keras's name."""
        return LearningRate(self.learn_rate)

    @learning_rate.setter
    def learning_rate(self, value: float | Schedule) -> None:
        self.learn_rate = value if isinstance(value, Schedule) else arguments.number(self, "learning_rate", value, 0)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that gives the learning rate, or None where it is a number."""
        return self._schedule

    @property
    def elementwise(self) -> bool:
        """Whether each parameter changes by its own numbers alone, so that `update` may be given a part of the vector."""
        return self.clip_norm is None and self.clip_variable_norm is None and self._decays is None

    def partition(self, sizes: Sequence[int], shapes: Sequence[Shape] | None = None) -> None:
        """Take the sizes of the variables, in order. An optimizer tells them; rules that look at no variable ignore them.

        Args:
            sizes: elements of each variable.
            shapes: shape of each, which a `KernelDecay` needs; None where it is not known.
        """
        for size in sizes:
            arguments.integer(self, "sizes", size, minimum=1)
        ends = list(accumulate(sizes))
        self._variables = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._spared = None
        if shapes is not None:
            self._spared = [place for place, axes in zip(self._variables, shapes, strict=True) if len(axes) < 2]

    def update(self, parameters: Array, gradients: Array) -> None:
        """Change parameters in place by one step.

        Args:
            parameters: a vector, of the same length at every call.
            gradients: a vector of that length.
        """
        self.update_from(parameters, gradients)

    @property
    def reads_stretches(self) -> bool:
        """Whether it takes `update_from`: where it has not defined `update` anew."""
        return type(self).update is IGradientDescent.update

    def update_from(self, parameters: Array, gradients: Array | Stretches) -> None:
        """Update parameters as `update` does, for gradients that are no array.

        Args:
            parameters: as of `update`.
            gradients: the gradients, of which some are computed a stretch at a time.
        """
        self._begin(parameters, gradients)
        length, team = len(gradients), self.team
        # `concurrent` of the class itself: a subclass may keep something between chunks, so it has to state it again
        if team is None or length < LEAST_SHARED or not vars(type(self)).get("concurrent") or type(gradients) is not np.ndarray:
            self._update(parameters, gradients, slice(0, length), CHUNK)
            return
        lanes = min(team.size, length // LEAST_SHARE)
        # By whole cache lines, so that no two lanes write to one.
        line = CACHE_LINE // parameters.itemsize
        # The first lane is this thread, which may have more to do.
        saved = BESIDE if team.busy else 0
        cuts = [0, *[((length + saved) * lane // lanes - saved) // line * line for lane in range(1, lanes)], length]
        if self._scratch.shape[1] < SHARED_CHUNK:
            self._scratch = empty((3, SHARED_CHUNK), self._scratch.dtype)
        rules = [self, *[self._for_lane(lane) for lane in range(lanes - 1)]]
        team.run(
            [
                partial(rule._update, parameters, gradients, slice(*cut), SHARED_CHUNK)
                for rule, cut in zip(rules, pairwise(cuts), strict=True)
            ]
        )
        # each lane has looked at the first chunk of its own
        self._proven = True

    def _update(self, parameters: Array, gradients: Array | Stretches, part: slice, size: int) -> None:
        scratch = self._scratch[0]
        # a rule without slots that takes gradients as they are needs no step between
        plain = self._proven and not (self._slots or self._adjusts) and self._decays is None
        for start in range(part.start, part.stop, size):
            chunk = slice(start, min(start + size, part.stop))
            value, gradient = parameters[chunk], gradients[chunk]
            change = scratch[: len(value)]
            if plain:
                self.increment(value, gradient, change)
            else:
                self._increment(chunk, value, gradient, change)
            # Here and not in `increment`, so that `write_change` gives the same bits.
            np.add(value, change, out=value)

    def _for_lane(self, lane: int) -> IGradientDescent:
        """Return this rule as it is in this step, with scratch arrays of the lane's own, for each lane but the first."""
        if len(self._lanes) <= lane or self._lanes[lane].dtype != self._scratch.dtype:
            # Those of the lanes behind have the old type as well.
            self._lanes[lane:] = [empty((3, SHARED_CHUNK), self._scratch.dtype)]
        # It shares slots and settings with this rule; only its scratch arrays are its own.
        rule = object.__new__(type(self))
        vars(rule).update(vars(self), _scratch=self._lanes[lane])
        return rule

    def write_change(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of one step: `update` is `parameters += out`, bit for bit.

        Args:
            parameters, gradients: as of `update`.
            out: takes the increment, another vector of that length.
        """
        self._begin(parameters, gradients)
        for part in parts(0, len(gradients), CHUNK):
            self._increment(part, parameters[part], gradients[part], out[part])

    delta = renamed("write_change", offered=True)

    def begin_step(self) -> None:
        """Compute the numbers that all chunks of this step share; `self.step` counts from 1, `self.rate` is the learn rate."""

    @abstractmethod
    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Write the increment of one chunk and change its slots.

        Args:
            value: the parameters of the chunk, only read.
            gradient: their gradients, only read.
            out: takes the increment.
            *slots: the state of the chunk, in the order of `slots`, changed in place.
        """

    def spare(self, out: Array) -> Array:
        """Return a scratch array of the length of `out`, for use within one `increment`."""
        return self._scratch[2, : len(out)]

    def _decayed(self, value: Array, factor: float, out: Array) -> Array:
        """Write `factor` times the parameters of the chunk into `out`, 0 for those that the decay spares; return it."""
        np.multiply(value, factor, out=out)
        if self._decays is not None:
            for variable in self._spared or ():
                # The variable's part in this chunk, empty where it lies elsewhere.
                out[max(variable.start - self._place, 0) : max(variable.stop - self._place, 0)] = 0
        return out

    def _add_decay(self, value: Array, out: Array) -> None:
        """Add -rate * weight_decay * value to the step in `out`: the decay of a rule that is `decoupled`."""
        if self.weight_decay:
            # In `spare`: the step is in `out`, and the gradient's scratch may be in use.
            np.add(out, self._decayed(value, -self.rate * self.weight_decay, self.spare(out)), out=out)

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the live state: the step count and the slots."""
        return {"step": self._step_number, **self._slots}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over a copy of a state that `state_dict` returned; `{"step": 0}` starts afresh.

        Raises ValueError where names or lengths do not fit.
        """
        if len(state) == 1 and state.get("step") == 0 and type(state["step"]) is int:
            # often: a rule begins anew for each client of a round
            self._keep(_step_number=0, _slots={})
            return
        names = set(state) - {"step"}
        fresh = not names and state.get("step") == 0
        if "step" not in state or (names != set(self.slots) and not fresh):
            expected, got = ", ".join(("step", *self.slots)), ", ".join(sorted(state)) or "nothing"
            raise ValueError(f"{type(self).__name__} state must hold {expected}; got {got}")
        step = arguments.integer(self, "step", state["step"], minimum=0)
        given = {name: np.asarray(state[name]) for name in self.slots if name in names}
        if len({slot.shape for slot in given.values()}) > 1 or any(slot.ndim != 1 for slot in given.values()):
            raise ValueError(f"{type(self).__name__} state must hold vectors of one length")
        # Only now, when all has been checked: a state that is refused changes nothing.
        self._step_number = step
        # Copies that begin at cache lines: the given arrays may belong to another rule or to a file.
        self._slots = {name: empty(slot.shape, slot.dtype) for name, slot in given.items()}
        for name, slot in self._slots.items():
            np.copyto(slot, given[name])

    def argument(self, name: str) -> Any:
        """Return one argument; `learn_rate` as it was set last."""
        if name == "weight_decay" and self._decays is not None:
            return self._decays
        if name == "learn_rate":
            return self._learn_rate if self._schedule is None else self._schedule
        return super().argument(name)

    def _take(self, name: str, value: Any) -> bool:
        if name != "step" or not is_ours(type(self)):  # of a user's class it is the author's own
            return False
        self._keep(_step_number=arguments.integer(self, "step", value, minimum=0))
        return True

    def _limit(self, name: str, value: float | None) -> float | None:
        return None if value is None else arguments.number(self, name, value, 0, open_low=True)

    def _begin(self, vector: Array, gradients: Array | Stretches) -> None:
        if vector.ndim != 1 or vector.shape != gradients.shape:
            raise ValueError(
                f"{type(self).__name__} takes two vectors of equal length, got shapes {vector.shape} and {gradients.shape}"
            )
        if self.slots and not self._slots:
            if "step" in self.slots:
                raise ValueError(f"{type(self).__name__}.slots must not name 'step', which the state has, got {self.slots}")
            self._slots = {name: zeros(vector.shape, vector.dtype) for name in self.slots}
        for slot in self._slots.values():
            if slot.shape != vector.shape or slot.dtype != vector.dtype:
                raise ValueError(
                    f"{type(self).__name__} holds state for {len(slot)} parameters of {slot.dtype}, "
                    f"got {len(vector)} of {vector.dtype}"
                )
        if self._scratch.dtype != vector.dtype or not self._scratch.size:
            self._scratch = empty((3, CHUNK), vector.dtype)
        if self._decays is not None:
            self._whole_variables(len(vector))
            if self._spared is None:
                raise ValueError(
                    f"{type(self).__name__} 'weight_decay' is a KernelDecay and must be told the shapes of the variables by "
                    "partition() (optimizers do), got their sizes alone"
                )
        factor = 1.0 if self.clip_norm is None else clip_factor(chunks(gradients), self.clip_norm)
        factors = [] if self.clip_variable_norm is None else self._clips(gradients, self.clip_variable_norm)
        # What all chunks need to know is decided once.
        decays = self.weight_decay > 0 and not self.decoupled
        adjusts = decays or self.clip_value is not None or factor != 1 or bool(factors)
        # Past a look at each name: a step of a small network takes no longer than that. The rate is that before the count goes
        # on, since a schedule is asked by the steps that are done.
        own = vars(self)
        own["_factor"], own["_factors"], own["_adjusts"] = factor, factors, adjusts
        own["rate"], own["_step_number"] = self.learn_rate, self._step_number + 1
        self.begin_step()

    def _whole_variables(self, length: int) -> list[slice]:
        """Return where each variable lies; raise ValueError unless `partition` fits a vector of this length."""
        covered = self._variables[-1].stop if self._variables else 0
        if covered != length:
            raise ValueError(
                f"{type(self).__name__} takes the whole vector, variable by variable, and must be told their sizes by "
                f"partition() (optimizers do): it knows of {covered} parameters, got {length}"
            )
        return self._variables

    def _clips(self, gradients: Array | Stretches, limit: float) -> list[tuple[slice, float]]:
        """Return the variables with a gradient longer than the limit, each with the factor that shortens it."""
        found = []
        for variable in self._whole_variables(len(gradients)):
            stretches = (gradients[part] for part in parts(variable.start, variable.stop, NORM_CHUNK))
            factor = clip_factor(stretches, limit)
            if factor != 1:
                found.append((variable, factor))
        return found

    def _increment(self, part: slice, value: Array, gradient: Array, out: Array) -> None:
        if self._decays is not None:
            self._place = part.start
        if self._adjusts:
            gradient = self._adjust(part.start, value, gradient, out)
        slots = [slot[part] for slot in self._slots.values()]
        if self._proven:
            self.increment(value, gradient, out, *slots)
        else:
            written(self, "increment", (*map(_read_only, (value, gradient)), out, *slots), out)
            self._proven = True

    def _adjust(self, start: int, value: Array, gradient: Array, out: Array) -> Array:
        """Return the clipped gradient plus decay in scratch memory; `out` is overwritten. The chunk begins at `start`."""
        adjusted = self._scratch[1, : len(gradient)]
        if self.clip_value is not None:
            gradient = np.clip(gradient, -self.clip_value, self.clip_value, out=adjusted)
        elif self._factor != 1:
            gradient = np.multiply(gradient, self._factor, out=adjusted)
        elif self._factors:
            np.copyto(adjusted, gradient)
            for variable, factor in self._factors:
                # The variable's part in this chunk, empty where it lies elsewhere.
                cut = slice(max(variable.start - start, 0), max(variable.stop - start, 0))
                adjusted[cut] *= factor
            gradient = adjusted
        if self.weight_decay > 0 and not self.decoupled:
            # `out` is free: the increment is written later.
            gradient = np.add(gradient, self._decayed(value, self.weight_decay, out), out=adjusted)
        return gradient


class WholeVariableRule(IGradientDescent, fixed=("_change",)):
    """Common part of rules by which the step of a parameter depends on all of its variable: they take the whole vector only."""

    decoupled: ClassVar[bool] = True
    _change: Array = np.empty(0)

    @property
    def elementwise(self) -> bool:
        """No: a parameter changes by others of its variable."""
        return False

    def update(self, parameters: Array, gradients: Array) -> None:
        # The step of a variable is known when all of it is, so it needs room for the whole vector.
        if self._change.shape != parameters.shape or self._change.dtype != parameters.dtype:
            self._change = empty(parameters.shape, parameters.dtype)
        self.write_change(parameters, gradients, self._change)
        np.add(parameters, self._change, out=parameters)


def _read_only(array: Array) -> Array:
    found = array.view()
    found.flags.writeable = False
    return found


def chunks(vector: Array | Stretches) -> Iterator[Array]:
    """Return the parts of a vector in which its squares are added up one after the other."""
    return (vector[part] for part in parts(0, len(vector), NORM_CHUNK))


def parts(start: int, stop: int, size: int) -> Iterator[slice]:
    """Return slices of at most `size` elements, side by side, from `start` to `stop`."""
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))

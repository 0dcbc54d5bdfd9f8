"""The parts of a composed codec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from nn.arguments import Configurable, config_of
from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.codec.pipeline import Chain, LinearCode, Part, Stage
from parallel_sgd.codec.pipeline.stage import Remembers, State, arguments_of, gathered, scattered
from parallel_sgd.codec.traits import Scope
from parallel_sgd.profiles.blockassignment.abstract import ISetting

from .merge import MergeRule
from .trigger import Trigger

T = TypeVar("T")
#: A part as it is given: an object that is copied, or a function that makes one where `GlobalSettings` can be read.
Given: TypeAlias = T | Callable[[], T]
Up: TypeAlias = Stage | LinearCode | None

RuleMaker: TypeAlias = Callable[[], IGradientDescent]

SENDS = ("gradient", "weights", "delta")


class Grain(Enum):
    """Grain of the values that a codec encodes and merges.

    SPANS: sums over whole subtrees of blocks, the first copy of each counts; exact, for vectors that travel as they are.
    WORKERS: the mean over all blocks of a worker; each worker counts as many times as it has blocks.
    BLOCKS: each block by itself, encoded alike by all workers that hold it; the first copy counts.
    """

    SPANS = "spans"
    WORKERS = "workers"
    BLOCKS = "blocks"

    @property
    def first_copy(self) -> bool:
        """Whether a silent worker is not missed as long as each block comes from another one."""
        return self is not Grain.WORKERS


class Shard(NamedTuple):
    """The elements [start, stop) of a vector, merged in one place.

    Args:
        start, stop: the elements.
        owner: id of the node that merges them; None where every worker does.
    """

    start: int
    stop: int
    owner: int | None


class ExchangePattern(Part, ABC):
    """Pattern of an exchange: the nodes that talk to each other. One object may serve many compositions; it never changes."""

    needs_server: ClassVar[bool] = False
    """It goes through the parameter server."""
    linear: ClassVar[bool] = False
    """It adds up on the way, so it takes linear parts only."""
    agrees: ClassVar[bool] = True
    """All workers get the same result. Where not, they exchange parameters, and there is no merge rule."""
    returns: ClassVar[bool] = False
    """A vector that one node has merged travels to all workers; unless `linear`, a pipeline on the way down may encode it."""
    rounds: ClassVar[bool] = False
    """It can average one vector after the other in the same batch."""
    in_one_place: ClassVar[bool] = False
    """Vectors are merged as a whole."""
    merges_first_copies: ClassVar[bool] = False
    """No worker is needed to merge the packets of others, so that a job may go on without it."""
    quorum: float = 1.0
    """The share of the weight of all workers that is enough for an overdue result."""

    @abstractmethod
    def compose(self, **parts: Any) -> type[Codec]:
        """Return a codec class of `parts`, those of `Codec.of`; `builder.build` derives it from the one that exchanges so."""

    def refuse(self, composition: Composition, parts: Parts) -> None:
        """Refuse parts that do not suit this pattern.

        Args:
            composition: the parts as they were given to `Codec.of`.
            parts: those of one codec object, made of them.

        Raises: ValueError, with the fix in words.
        """
        return

    def shards(self, n: int, assignment: ISetting, variable: int) -> list[Shard]:
        """Cut a vector into shards, for patterns that merge it in one place or several.

        Args:
            n: the number of elements of the vector.
            assignment: the block assignment of the job, which knows the workers.
            variable: the variable's id, by which owners of shards may take turns.
        """
        return [Shard(0, n, None)]


class LocalRule(Part):
    """Rule that changes a worker's own value of each batch, the vector that it sends, and the one that comes back.

    One object serves one variable on one worker; vectors are flat. A subclass overrides the methods that it needs.
    """

    sends: ClassVar[tuple[str, ...]] = ()
    """With which `send` of `Codec.of` it goes."""
    agrees: ClassVar[bool] = True
    """All workers have the same parameters after an exchange."""
    updates: ClassVar[bool] = False
    """The vector that comes back is turned into an increment of the parameters, for any vector that was sent."""
    means: ClassVar[bool] = True
    """The vectors that it sends must come back as a mean."""
    width: ClassVar[int] = 1
    """How many vectors it sends in place of one."""

    def use(self, rule: RuleMaker | None) -> None:
        """Take note of the maker of the job's `rule`, by which the worker steps; None where there is none."""
        return

    def begin(self, parameters: Array) -> None:
        """Take note of the common parameters, at the start and after every exchange. They change later."""
        return

    def step(self, value: Array) -> Array:
        """Return the value that the worker goes on with, made of its own `value` of a batch, which is not changed."""
        return value

    def outgoing(self, value: Array, dense: bool) -> Array:
        """Return the vector that is sent in place of `value`, in a batch with an exchange.

        Args:
            value: the worker's own value after `step`, or its change since the last exchange.
            dense: the vector goes past all stages.
        """
        return value

    def incoming(self, merged: Array, dense: bool) -> Array:
        """Return the vector for the result, made of the merged one.

        Args:
            merged: the vector that the exchange has merged.
            dense: the batch went past all stages.
        """
        return merged


Copied = TypeVar("Copied", bound=Remembers)


class Copies(Generic[Copied]):
    """Copies of a part by numbers such as contributor and shard, made when they are first asked for. Their states are kept by
    these numbers: `<number>,<number>.<name>`.
    """

    def __init__(self, pattern: Copied) -> None:
        self._pattern = pattern
        self._made: dict[tuple[int, ...], Copied] = {}

    def __call__(self, *numbers: int) -> Copied:
        found = self._made.get(numbers)
        if found is None:
            # a deep copy: the pattern keeps no state, so every copy begins alike
            found = self._made[numbers] = deepcopy(self._pattern)
        return found

    def state_dict(self) -> State:
        return gathered({",".join(map(str, numbers)): copy for numbers, copy in self._made.items()})

    def state_of(self, first: int) -> State:
        """Return the states of the copies of which `first` is the first number, by the other numbers."""
        made = {numbers[1:]: copy for numbers, copy in self._made.items() if numbers[0] == first}
        return gathered({",".join(map(str, numbers)): copy for numbers, copy in made.items()})

    def load_state_of(self, first: int, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_of` returned; copies that are not in it begin afresh."""
        names = dict.fromkeys(key.partition(".")[0] for key in state)
        copies = {name: (first, *(int(number) for number in name.split(",") if number)) for name in names}
        # made anew, not loaded with nothing, which some parts refuse; a copy without a state is as new
        for numbers in [each for each in self._made if each[0] == first and each not in copies.values()]:
            if self._made[numbers].state_dict():
                del self._made[numbers]
        scattered({name: self(*numbers) for name, numbers in copies.items()}, state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # copies that a state has and this codec has not used yet are made for it
        self._made.clear()
        names = dict.fromkeys(key.partition(".")[0] for key in state)
        scattered({name: self(*map(int, name.split(","))) for name in names}, state)


@dataclass(frozen=True)
class Parts:
    """The parts of one codec object, which has them for itself."""

    up: Up
    down: Stage | None
    merge: MergeRule
    trigger: Trigger
    local: LocalRule | None = None

    @property
    def stage(self) -> Stage | None:
        """The pipeline on the way up, if it is one of stages."""
        return self.up if isinstance(self.up, Stage) else None

    @property
    def code(self) -> LinearCode | None:
        """The linear code that averages vectors on the way up in rounds of its own, such as PowerSGD, if there is one."""
        return self.up if isinstance(self.up, LinearCode) else None

    @property
    def updates(self) -> bool:
        """Whether results are parameters, made of increments."""
        return self.merge.updates or (self.local is not None and self.local.updates)

    @property
    def of_the_model(self) -> list[Part]:
        """The parts that look at the gradient as a whole, also those that stand in others."""
        own = (self.up, self.down, self.merge, self.trigger, self.local)
        return [part for each in own for part in _nested(each) if part.scope == "model"]

    def split(self) -> tuple[Chain, Stage | None]:
        """Return the gradient's side of the pipeline, which sees a variable as a whole, and the rest, which sends.

        The rest is None where nothing is left that would change the bytes.
        """
        # all that leads stands in front (`Chain` refuses another order)
        stages = flat(self.stage)
        front = 0
        while front < len(stages) and stages[front].leads:
            front += 1
        rest = stages[front:]
        return Chain(stages[:front]), (rest[0] if len(rest) == 1 else Chain(rest)) if rest else None


@dataclass(frozen=True)
class Composition:
    """Parts as they were given to `Codec.of`: objects, or functions that make them.

    Args:
        exchange: the exchange pattern.
        up: a stage, or `PowerSGD`, on the way to the node that merges; None sends arrays as they are.
        down: a stage on the way back, or None.
        send: "gradient", "weights" or "delta".
        merge: the merge rule.
        trigger: says in which batches there is an exchange.
        local: a rule for a worker's own values, or None.
        scope: "variable" or "model".
    """

    exchange: ExchangePattern
    up: Given[Up]
    down: Given[Stage | None]
    send: str
    merge: Given[MergeRule]
    trigger: Given[Trigger]
    local: Given[LocalRule | None] = None
    scope: Scope = "variable"

    def make(self) -> Parts:
        """Return parts for one codec object.

        Raises: TypeError for a part of the wrong kind; any error of a function that makes a part.
        """
        up = _made(self.up, (Stage, LinearCode), "up", "a stage or PowerSGD")
        down = _made(self.down, (Stage,), "down", "a stage")
        merge = _made(self.merge, (MergeRule,), "merge", "a merge rule such as Mean()")
        trigger = _made(self.trigger, (Trigger,), "trigger", "a trigger such as Every(1)")
        # before the parts are used: a rule may merge gradients and changes in different ways
        merge.use(self.send)
        local = _made(self.local, (LocalRule,), "local", "a local rule such as Prox(0.01)")
        return Parts(up, down, merge, trigger, local)

    def describe(self, parts: Parts) -> str:
        """Return the arguments of `Codec.of` in words, with the `parts` of one codec object."""
        local = "" if parts.local is None else f", {parts.local!r}"
        ways = f"up={parts.up!r}, down={parts.down!r}, send={self.send}"
        scope = "" if self.scope == "variable" else f", scope={self.scope}"
        return f"{self.exchange!r}, {ways}, {parts.merge!r}, {parts.trigger!r}{local}{scope}"

    def identity(self, parts: Parts) -> list[object]:
        """Return, as data, all of the composition and its `parts` that must be equal on all nodes."""
        own = (self.exchange, parts.up, parts.down, parts.merge, parts.trigger, parts.local)
        # the scope only where it is another than it always was, so that packets of before keep their bytes
        return [self.send, *map(identity, own), *([] if self.scope == "variable" else [self.scope])]

    def grain(self, parts: Parts) -> Grain:
        """Return the grain of the contributions that a codec of these `parts` sends."""
        # sums over spans need arrays as they are, and all of them: with a quorum some may be missing
        as_it_is = parts.up is None and self.send != "delta" and self.exchange.quorum == 1
        if parts.local is not None:
            return Grain.WORKERS
        if as_it_is and parts.merge.exact:
            return Grain.SPANS
        return Grain.BLOCKS if parts.merge.first_copy else Grain.WORKERS


def flat(stage: Stage | None) -> list[Stage]:
    """Return the stages of a pipeline, one after the other."""
    return stage.stages if isinstance(stage, Chain) else [] if stage is None else [stage]


def _nested(value: object) -> Iterator[Part]:
    """Yield a part and all parts among its arguments."""
    if isinstance(value, Part):
        yield value
        value = arguments_of(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    for each in value if isinstance(value, (list, tuple)) else ():
        yield from _nested(each)


def identity(value: object) -> object:
    """Return the data that makes a part, or an argument of one, the same on all nodes: class and constructor's arguments.

    A part keeps these as attributes of the same names; attributes of other names do not count.
    """
    # plain types alone: the identity is written as JSON into the fingerprint
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): identity(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [identity(each) for each in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    config = config_of(value) if isinstance(value, Configurable) else arguments_of(value)
    return [type(value).__name__, identity(config)]


def _made(part: Any, kinds: tuple[type, ...], name: str, wanted: str) -> Any:
    if isinstance(part, type) and issubclass(part, kinds):
        raise TypeError(f"Codec.of() '{name}' must be {wanted}, got the class; write {part.__name__}()")
    if isinstance(part, kinds):
        # a copy for each codec object, since parts have states
        return deepcopy(part)
    made = part() if callable(part) else part
    if made is None and name in ("up", "down", "local"):
        return None
    if not isinstance(made, kinds):
        raise TypeError(f"Codec.of() '{name}' must be {wanted}, or a function that makes one, got {made!r}")
    return made

"""The parts of a composed codec."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from parallel_sgd.codec.pipeline import Chain, Stage
from parallel_sgd.codec.pipeline.gradient import GradientStage
from parallel_sgd.codec.pipeline.low_rank import PowerSGD

from .local import LocalRule
from .merge import MergeRule, ServerOpt
from .trigger import Trigger
from .units import Grain

if TYPE_CHECKING:
    from .exchange import ExchangePattern

T = TypeVar("T")
#: A part as it is given: an object that is copied, or a function that makes one where `GlobalSettings` can be read.
Part: TypeAlias = T | Callable[[], T]
Up: TypeAlias = Stage | PowerSGD | None

SENDS = ("gradient", "weights", "delta")


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
    def updates(self) -> bool:
        """Whether results are parameters, made of increments."""
        return self.merge.updates or (self.local is not None and self.local.updates)

    def split(self) -> tuple[Chain, Stage | None]:
        """Return the gradient's side of the pipeline, which sees a variable as a whole, and the rest, which sends.

        The rest is None where nothing is left that would change the bytes.
        """
        stages = flat(self.stage)
        front = 0
        while front < len(stages) and isinstance(stages[front], GradientStage):
            front += 1
        rest = stages[front:]
        return Chain(stages[:front]), (rest[0] if len(rest) == 1 else Chain(rest)) if rest else None


@dataclass(frozen=True)
class Composition:
    """What `Codec.of` was given."""

    exchange: ExchangePattern
    up: Part[Up]
    down: Part[Stage | None]
    send: str
    merge: Part[MergeRule]
    trigger: Part[Trigger]
    local: Part[LocalRule | None] = None

    def make(self) -> Parts:
        """Return parts for one codec object.

        Raises: TypeError for a part of the wrong kind; what functions that make parts raise.
        """
        up = _made(self.up, (Stage, PowerSGD), "up", "a stage or PowerSGD")
        down = _made(self.down, (Stage,), "down", "a stage")
        merge = _made(self.merge, (MergeRule,), "merge", "a merge rule such as Mean()")
        trigger = _made(self.trigger, (Trigger,), "trigger", "a trigger such as Every(1)")
        if isinstance(merge, ServerOpt):
            merge.descends = self.send == "gradient"
        local = _made(self.local, (LocalRule,), "local", "a local rule such as Prox(0.01)")
        return Parts(up, down, merge, trigger, local)

    def describe(self, parts: Parts) -> str:
        """Return what must be equal on all nodes."""
        local = "" if parts.local is None else f", {parts.local!r}"
        ways = f"up={parts.up!r}, down={parts.down!r}, send={self.send}"
        return f"{self.exchange!r}, {ways}, {parts.merge!r}, {parts.trigger!r}{local}"

    def grain(self, parts: Parts) -> Grain:
        """Return what the contributions are."""
        as_it_is = parts.up is None and self.send != "delta" and not self.exchange.allows_missing
        if parts.local is not None:
            return Grain.WORKERS
        if as_it_is and parts.merge.exact:
            return Grain.SPANS
        return Grain.BLOCKS if parts.merge.first_copy else Grain.WORKERS


def flat(stage: Stage | None) -> list[Stage]:
    """Return the stages of a pipeline, one after the other."""
    return stage.stages if isinstance(stage, Chain) else [] if stage is None else [stage]


def _made(part: Any, kinds: tuple[type, ...], name: str, wanted: str) -> Any:
    if isinstance(part, type) and issubclass(part, kinds):
        raise TypeError(f"Codec.of() '{name}' must be {wanted}, got the class; write {part.__name__}()")
    if isinstance(part, kinds):
        return deepcopy(part)
    made = part() if callable(part) else part
    if made is None and name in ("up", "down", "local"):
        return None
    if not isinstance(made, kinds):
        raise TypeError(f"Codec.of() '{name}' must be {wanted}, or a function that makes one, got {made!r}")
    return made

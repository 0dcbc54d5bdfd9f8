"""What an exchange pattern is: who talks to whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.profiles import ISetting

from .builder import build

if TYPE_CHECKING:
    from .composition import Composition, Parts


class Shard(NamedTuple):
    """The elements [start, stop) of a vector, merged on the node `owner`, or on every worker where that is None."""

    start: int
    stop: int
    owner: int | None


class ExchangePattern(ABC):
    """Who talks to whom. One object may serve many compositions; it is never changed."""

    needs_server: ClassVar[bool] = False
    """It goes through the parameter server."""

    linear: ClassVar[bool] = False
    """It adds up on the way, so it takes only what is linear."""

    agrees: ClassVar[bool] = True
    """All workers get the same result. Where not, what is exchanged are parameters, and there is no merge rule."""

    returns: ClassVar[bool] = False
    """What is merged somewhere travels to all workers; unless it is `linear`, a pipeline on the way down may encode it."""

    rounds: ClassVar[bool] = False
    """It can average one vector after the other in the same batch."""

    in_one_place: ClassVar[bool] = False
    """Vectors are merged as a whole."""

    merges_first_copies: ClassVar[bool] = False
    """No worker is needed to merge what others send, so that a job may go on without it."""

    allows_missing: bool = False
    """A result may lack some workers."""

    @abstractmethod
    def codec_class(self) -> type[Codec]:
        """Return the class from which codecs of this pattern are derived."""

    def compose(self, **parts: Any) -> type[Codec]:
        """Return a codec class: see `Codec.of`."""
        return build(self, **parts)

    def refuse(self, composition: Composition, parts: Parts) -> None:
        """Raise ValueError, with the fix in words, for parts that do not suit this pattern."""
        return

    def shards(self, n: int, assignment: ISetting, variable: int) -> list[Shard]:
        """Cut a vector of n elements, for patterns that merge it in one place or several."""
        return [Shard(0, n, None)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

"""Makes codec classes of parts, and refuses or warns where these do not fit together."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from network.suggestions import did_you_mean
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.codec.settings import GlobalSettings, MissingParameter
from parallel_sgd.profiles import IIDBlockAssignment

from .composition import SENDS, Composition, Part, Parts, Up, flat
from .local import LocalRule
from .merge import Mean, MergeRule
from .refusals import doubts, refuse
from .trigger import Every, Trigger

if TYPE_CHECKING:
    from .exchange import ExchangePattern


class CodecWarning(UserWarning):
    """A codec is possible, but is known to train badly; the message says what to do instead."""


def build(
    exchange: ExchangePattern,
    *,
    up: Part[Up] = None,
    down: Part[Stage | None] = None,
    send: str = "gradient",
    merge: Part[MergeRule] | None = None,
    trigger: Part[Trigger] | None = None,
    local: Part[LocalRule | None] = None,
    name: str | None = None,
) -> type[Codec]:
    """Return a codec class of these parts: see `Codec.of`.

    Raises: TypeError or ValueError where parts do not fit together. Warns with CodecWarning.
    """
    if send not in SENDS:
        raise ValueError(f"Codec.of() 'send' must be one of {', '.join(SENDS)}, got {send!r}{did_you_mean(send, SENDS)}")
    merge, trigger = Mean() if merge is None else merge, Every() if trigger is None else trigger
    composition = Composition(exchange, up, down, send, merge, trigger, local)
    parts = _trial(composition)
    if parts is not None:
        refuse(composition, parts)
        for text in doubts(parts, send):
            warnings.warn(text, CodecWarning, stacklevel=4)
    members: dict[str, Any] = {
        "composition": composition,
        "needs_server": exchange.needs_server,
        "serves": exchange.needs_server,
        "agrees": exchange.agrees and (parts is None or parts.trigger.always),
        "takes": "parameters" if send != "gradient" else None,
        "__module__": _caller(),
    }
    if parts is not None:
        members["takes_first_copy"] = exchange.merges_first_copies and composition.grain(parts).first_copy
        members["__doc__"] = f"Composed: Codec.of({composition.describe(parts)})."
        if parts.local is not None:
            members["agrees"] = members["agrees"] and parts.local.agrees
        if parts.updates:
            members["gives"] = "parameters"
            members["takes"] = members["takes"] or "gradients"
    base = exchange.codec_class()
    kind: type[Codec] = type(base).__new__(type(base), _checked_name(name) or _default_name(exchange, parts), (base,), members)
    return kind


def _trial(composition: Composition) -> Parts | None:
    """Make the parts once, as in a job without parameters; None where they need one."""
    with GlobalSettings.use(IIDBlockAssignment(4)):
        try:
            return composition.make()
        except MissingParameter:
            return None


def _checked_name(name: str | None) -> str | None:
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise ValueError(f"Codec.of() 'name' must be a name for a class, got {name!r}")
    return name


def _default_name(exchange: ExchangePattern, parts: Parts | None) -> str:
    """Return words of which the parts are made: `ShardedPSErrorFeedbackTopK`."""
    words = [type(exchange).__name__]
    todo: list[object] = [] if parts is None else [*flat(parts.stage)] or [parts.up]
    while todo:
        part = todo.pop(0)
        if part is not None:
            words.append(type(part).__name__)
            inner = getattr(part, "inner", None)
            todo[:0] = flat(inner) if isinstance(inner, Stage) else []
    return "".join(words)


def _caller() -> str:
    """Return the module in which a class is composed, to which it belongs then."""
    depth, module = 1, __name__
    while module == __name__ or module in (f"{__package__}.exchange", Codec.__module__):
        depth += 1
        module = sys._getframe(depth).f_globals.get("__name__", "__main__")
    return str(module)

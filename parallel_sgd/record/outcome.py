"""Reader of `outcome.json`, which tells how a run has ended: each value has the type that pages and commands take it for."""

from __future__ import annotations

import math
from typing import Any, Final

from .door import Door
from .files import OUTCOME
from .forms import Form, Misfit, any_of, list_of, map_of, none, number, record, text, whole

__all__ = ["OUTCOME", "read_outcome"]

_NODE: Final = whole(-(1 << 31), (1 << 31) - 1)
_COUNT: Final = whole(0)
_LAST_SECOND: Final = float(1 << 33)  # a time beyond that may be none that the calendar knows
_TEXTS: Final = list_of(rest=text)


def _moment(key: str, value: Any) -> float:
    """Take seconds since 1970."""
    if not 0 <= number(key, value) <= _LAST_SECOND:
        raise Misfit(f"cannot be used: '{key}' must be seconds since 1970, got {value!r}")
    return float(value)


def _figure(key: str, value: Any) -> float:
    """Take a figure of the result, which may be not finite."""
    # NaN and infinities are honest figures: a loss may end so
    if isinstance(value, float) and not math.isfinite(value):
        return value
    return float(number(key, value))


_CAUSE: Final = record(
    {
        **dict.fromkeys(("kind", "host", "phase", "detail", "reason"), text),
        **dict.fromkeys(("node", "rank", "exit_code", "signal"), any_of(none, _NODE)),
        **dict.fromkeys(("pid", "attempt", "epoch", "batch"), _COUNT),
        "seconds": number,
    },
    ("node", "kind", "host", "pid", "attempt", "phase", "epoch", "batch", "seconds", "detail", "exit_code", "signal", "rank",
     "reason"),
)  # fmt: skip
_CAUSES: Final = list_of(rest=_CAUSE)
_FORM: Final[Form] = record(
    {
        "format": _COUNT,
        # everything that page and commands read, so that none of them looks at types again
        **dict.fromkeys(("state", "message", "fault", "reason"), text),
        "ended": _moment,
        "figures": map_of(_figure),
        "settings": map_of(text),
        "environment": map_of(text),
        "model": map_of(text),
        **dict.fromkeys(("problems", "verdicts", "notes"), _TEXTS),
        "causes": _CAUSES,
        "failures": list_of(rest=list_of(_NODE, text, text)),
        "simulated": record(
            {
                **dict.fromkeys(("platform", "digest"), text),
                **dict.fromkeys(("seconds", "real_seconds"), number),
                "events": _COUNT,
                "compute": any_of(none, number),
                "links": map_of(list_of(number, number)),
            },
            ("platform", "seconds", "events"),
        ),
        "incidents": list_of(
            rest=record(
                {"time": _moment, "attempt": _COUNT, "message": text, "verdicts": _TEXTS, "causes": _CAUSES},
                ("time", "attempt", "message", "verdicts"),
            )
        ),
    }
)


def read_outcome(door: Door) -> dict[str, Any]:
    """Return the content of `outcome.json`, an empty dict for a run that has none.

    Args:
        door: of the folder of the run.

    Raises:
        CutOff: It holds no whole JSON.
        RecordError: It is no file of a run, or a value has another type; the message names the key.
    """
    try:
        content = door.json(OUTCOME)
    except FileNotFoundError:
        return {}
    try:
        checked: dict[str, Any] = _FORM("", content)
    except Misfit as error:
        raise door.error(OUTCOME, str(error)) from error
    return checked

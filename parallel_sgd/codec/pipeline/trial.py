"""Trial of a stage of a user's own on one small vector, before it is used: results that do not fit, and draws not by `draw`."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from nn.extension import OverrideWarning, described, level_of_user

from .gradient import GradientStage
from .stage import Draw, Reader, Stage, Writer

_NUMBERS = 8


def try_stage(stage: Stage) -> None:
    """Try a stage; one that raises is left to the first packet, where errors name the variable.

    Args:
        stage: the stage, which stays as it is: copies of it are tried.

    Raises: TypeError, ValueError naming the method, the array that it must return, and the object that came.
    """
    draw = Draw(0, 0, 0, 0, 0)
    try:
        first = _sent(copy.deepcopy(stage), draw)
        again, other = (_sent(copy.deepcopy(stage), each) for each in (draw, draw._replace(node=1)))
    except _Wrong as error:
        raise error.told from None
    except ValueError as error:
        if "read-only" not in str(error):
            return
        method = "transform" if isinstance(stage, GradientStage) else "encode"
        told = f"{type(stage).__name__}.{method}() must leave the vector x as it is, and has written to it"
        raise ValueError(told) from error
    except Exception:  # noqa: BLE001 - it may need the settings of a job, or vectors of another size
        return
    name = type(stage).__name__
    if first != again:
        _warn(f"{name} gives other bytes for the same vector and draw: random numbers must be those of draw.generator()")
    elif first != other and stage.deterministic:
        _warn(f"{name} draws random numbers: it must say deterministic = False")


class _Wrong(Exception):
    """Result that does not fit, told apart from errors of the stage's own code."""

    def __init__(self, told: Exception) -> None:
        self.told = told


def _warn(text: str) -> None:
    warnings.warn(text, OverrideWarning, stacklevel=level_of_user())


def _sent(stage: Stage, draw: Draw) -> bytes:
    """Return all that a stage sends of a vector; check each step of the way there and back."""
    vector = np.linspace(-1.5, 2, _NUMBERS, dtype=np.float32)
    # a stage never changes its input
    vector.flags.writeable = False
    writer = Writer()
    if isinstance(stage, GradientStage):
        made = stage.transform(vector, draw._replace(place=1))
        _check_row(stage, "transform", made, _NUMBERS, exact=True)
        return bytes(made.tobytes())
    sent = stage.encode(vector, writer, draw)
    most = stage.carried(_NUMBERS)
    _check_row(stage, "encode", sent, most, exact=False)
    payload, room = writer.join(), stage.side_bytes(_NUMBERS)
    if payload.size > room:
        raise _Wrong(
            ValueError(
                f"{type(stage).__name__}.side_bytes({_NUMBERS}) must be the most bytes that encode() writes, got {room} for "
                f"{payload.size}"
            )
        )
    parsed: Any = stage.parse(Reader(payload), _NUMBERS, draw)
    if not (isinstance(parsed, tuple) and len(parsed) == 2 and parsed[1] == sent.size):
        raise _Wrong(
            TypeError(
                f"{type(stage).__name__}.parse() must return the side information and the number of values that encode() "
                f"hands on, (.., {sent.size}), got {parsed if isinstance(parsed, tuple) else described(parsed)}"
            )
        )
    _check_row(stage, "decode", stage.decode(sent.copy(), parsed[0], _NUMBERS), _NUMBERS, exact=True)
    return payload.tobytes() + sent.tobytes()


def _check_row(stage: Stage, method: str, found: Any, count: int, *, exact: bool) -> None:
    is_row = isinstance(found, np.ndarray) and found.dtype == np.float32 and found.ndim == 1
    if not is_row or (found.size != count if exact else found.size > count):
        most = "" if exact else "at most "
        raise _Wrong(
            TypeError(
                f"{type(stage).__name__}.{method}() must return a row of {most}{count} float32 for a vector of {_NUMBERS}, got "
                f"{described(found)}"
            )
        )

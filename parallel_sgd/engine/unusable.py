"""Packets of another node that cannot be used: found where they are taken in, and told with the node that sent them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from network.values import fields_of

__all__ = ["Unusable", "check_finite"]


class Like(NamedTuple):
    """Shape and type of the values put for a variable."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Like:
        return cls(array.shape, array.dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


class Unusable(ValueError):
    """Error for a packet that has another shape or type than it must, numbers that are not finite, or is not its sender's to
    send; the code that knows the sender adds its name.
    """


def check_finite(content: object) -> None:
    """Check that all floating-point arrays in `content`, within tuples, lists and dicts too, hold finite numbers.

    Raises: Unusable saying how many are not.
    """
    check_arrays(content, None)


def check_arrays(content: object, like: Like | None, finite: bool = True, exact: bool = True) -> None:
    """Check that every array in `content`, within tuples, lists, dicts and objects too, has exactly the shape of `like`, its
    type where `exact`, else any of real numbers, and finite numbers where `finite`.

    Raises: Unusable saying the form that came and the form that must come.
    """
    if isinstance(content, np.ndarray):
        parts: Iterable[Any] = (content,)
    elif isinstance(content, (tuple, list)):
        parts = content
    elif isinstance(content, dict):
        parts = content.values()
    # most contents of other forms than arrays are plain numbers: no search in these
    elif isinstance(content, _LEAVES):
        return
    else:
        # registered classes travel, too, and their arrays are looked at as any other (SEC-24)
        parts = fields_of(content).values()
    for part in parts:
        if isinstance(part, np.ndarray):
            if like is not None and part.shape != like.shape:
                raise Unusable(f"it is {Like.of(part)}, and must be {like}")
            # NumPy would convert silently: float64 from a peer makes other bits, objects and texts an error far from here
            if like is not None and part.dtype != like.dtype and (exact or part.dtype.kind not in "biuf"):
                raise Unusable(f"it is {Like.of(part)}, and must be {like}")
            if finite and not is_finite(part):
                raise Unusable(not_finite(part))
        elif not isinstance(part, _LEAVES):
            check_arrays(part, like, finite, exact)


def check_form(content: object, forms: tuple[Any, ...]) -> None:
    """Check that `content` has one of these forms: a type, a tuple or list of the types of its parts, or `(int, ...)` for a
    tuple of any number of integers.

    Raises: Unusable telling the form that it has.
    """
    form: Any = type(content)
    if isinstance(content, (tuple, list)):
        types = list(map(type, content))
        form = tuple(types) if isinstance(content, tuple) else types
        if form not in forms and isinstance(content, tuple) and (int, ...) in forms and {int}.issuperset(types):
            return
    if form not in forms:
        parts = form if isinstance(form, (tuple, list)) else (form,)
        # cut: a tuple from a hostile peer may have a million parts
        shown = ", ".join(part.__name__ for part in parts)[:80] or "nothing"
        raise Unusable(f"it holds {shown}, which this codec does not send")


_LEAVES = (int, float, str, bytes, bool, type(None), np.generic)


def not_finite(array: NDArray[Any]) -> str:
    """Say how many numbers of an array are not finite."""
    return f"{array.size - int(np.count_nonzero(np.isfinite(array)))} of {array.size} numbers are not finite"


def is_finite(array: NDArray[Any]) -> bool:
    """Tell if all numbers of an array are finite; those of types that know no others are.

    Costs one pass that only reads, some one microsecond or a fraction of adding two such arrays.
    """
    if array.dtype.char in "fd":
        if math.isfinite(np.vdot(array, array)):  # only where all are; `vdot` neither makes an array nor warns of an overflow
            return True
    elif array.dtype.kind not in "fc":
        return True
    return bool(np.isfinite(array).all())  # squares of finite numbers may overflow, too

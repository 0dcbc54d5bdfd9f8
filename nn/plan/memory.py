"""Bytes of the arrays that an object holds."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from nn.arrays import Array
from nn.threads import Team
from nn.value.graph import Graph
from nn.value.value import Value

_SHARED = (Graph, Value, Team, type)
"""Objects that all plans of a model share."""


def bytes_held(item: object, apart: Iterable[Array] = ()) -> int:
    """Count the bytes of all arrays that an object, its attributes, and what these hold keep in memory, each piece once.

    Args:
        item: the object, such as a `Plan`. Of other objects only those of `nn` are looked into.
        apart: arrays whose memory belongs to others.
    """
    seen = {id(_owner(array)) for array in apart}
    total = 0
    waiting: list[Any] = [item]
    while waiting:
        each = waiting.pop()
        if isinstance(each, np.ndarray):
            each = _owner(each)
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            total += each.nbytes
        else:
            waiting += _parts(each)
    return total


def _owner(array: Array) -> Array:
    """Return the array with the memory that an array shows; `as_strided` has an object of its own between them."""
    shown: Any = array
    while (base := getattr(shown, "base", None)) is not None:
        shown = base
        if isinstance(shown, np.ndarray):
            array = shown
    return array


def _parts(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return (*item.keys(), *item.values())
    if isinstance(item, (list, tuple, set, frozenset)):
        return item
    if isinstance(item, functools.partial):
        return (item.func, item.args, item.keywords)
    if isinstance(item, MethodType):
        return (item.__self__,)
    if isinstance(item, FunctionType):
        return [cell.cell_contents for cell in item.__closure__ or ()]
    if type(item).__module__.partition(".")[0] == "nn":
        slots = (getattr(item, name, None) for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ()))
        return (*getattr(item, "__dict__", {}).values(), *slots)
    return ()

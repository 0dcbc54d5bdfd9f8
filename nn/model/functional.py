"""Inputs and outputs of a functional model: values of a graph, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from nn import arguments
from nn.activation.activation import Linear
from nn.arrays import BATCH
from nn.value.graph import Placeholder
from nn.value.value import Node, Value

Entries: TypeAlias = Placeholder | Sequence[Placeholder] | Mapping[str, Placeholder]
"""Inputs: one, a list, or a dict by name."""
Ends: TypeAlias = Value | Sequence[Value] | Mapping[str, Value]
"""Outputs: one, a list, or a dict by name."""


def entries_of(inputs: Any) -> tuple[list[Placeholder], tuple[str, ...]]:
    """Return the inputs and their names."""
    if isinstance(inputs, Mapping):
        names, entries = [str(name) for name in inputs], list(inputs.values())
    else:
        entries = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = [entry.name if isinstance(entry, Placeholder) else "" for entry in entries]
    if not entries:
        raise ValueError("Model 'inputs' must hold at least one nn.Input, got none")
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, Placeholder):
            where = f" for '{name}'" if name else ""
            hint = "; a value that a layer has given can be an output only" if isinstance(entry, Value) else ""
            raise TypeError(f"Model 'inputs' must be values of nn.Input, got {arguments.short(entry)}{where}{hint}")
    if len(set(map(id, entries))) < len(entries):
        raise ValueError("Model 'inputs' must be different values, got one twice")
    if len(entries) > 1:
        names = [name or f"input_{number}" for number, name in enumerate(names, start=1)]
    _refuse_equal("inputs", names)
    return entries, tuple(names)


def ends_of(outputs: Any) -> tuple[list[Node], tuple[str, ...]]:
    """Return the outputs, each a node of its own, and their names."""
    given = isinstance(outputs, Mapping)
    found = list(outputs.values()) if given else list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if not found:
        raise ValueError("Model 'outputs' must hold at least one value, got none")
    ends: list[Node] = []
    names: list[str] = []
    for number, value in enumerate(found, start=1):
        if not isinstance(value, Value):
            raise TypeError(f"Model 'outputs' must be values that layers have given, got {arguments.short(value)}")
        if not value.shape or value.shape[0] != BATCH:
            raise ValueError(f"Model 'outputs' must be one per sample, (-1, ...), got shape {value.shape}")
        # an output has a place of its own, where the caller finds it
        node = value if isinstance(value, Node) and value not in ends else value.apply(Linear())
        ends.append(node)
        own = value.layers[-1].given_name if isinstance(value, Node) and value.layers else ""
        names.append(own or ("output" if len(found) == 1 else f"output_{number}"))
    if given:
        names = [str(name) for name in outputs]
    elif len(set(names)) < len(names):  # one layer gives several of them
        names = [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names, start=1)]
    _refuse_equal("outputs", names)
    return ends, tuple(names)


def _refuse_equal(what: str, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Model '{what}' must have different names, got '{name}' twice")

"""Arguments that layers over images and sequences share."""

from collections.abc import Sequence

from nn import arguments
from nn.operation.convolution.window import Padding


def lengths(owner: object, name: str, value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return one positive integer for each axis, from a list or from a number for all; raise TypeError or ValueError."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return (arguments.integer(owner, name, value, minimum=1),) * axes
    found = arguments.shape(owner, name, value)
    if len(found) != axes:
        raise ValueError(f"{type(owner).__name__} '{name}' must be one positive integer or {axes} of them, got {value!r}")
    return found


def padding(owner: object, value: Padding) -> Padding:
    """Return 'valid', 'same' or a number of cells; raise TypeError or ValueError for anything else."""
    expected = f"{type(owner).__name__} 'padding' must be 'valid', 'same' or an integer of at least 0, got {value!r}"
    if isinstance(value, str):
        if value not in ("valid", "same"):
            raise ValueError(expected)
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(expected)
    if value < 0:
        raise ValueError(expected)
    return value

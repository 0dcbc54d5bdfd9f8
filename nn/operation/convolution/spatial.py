"""Arguments that everything over images and sequences shares, checked in the name of whoever was given them."""

from collections.abc import Sequence

from nn import arguments
from nn.arrays import BATCH, Shape
from nn.operation.convolution.window import Padding


def lengths(owner: object, name: str, value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return one positive integer for each axis, from a list or from a number for all; raise TypeError or ValueError."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return (arguments.integer(owner, name, value, minimum=1),) * axes
    found = arguments.shape(owner, name, value)
    if len(found) != axes:
        raise ValueError(f"{_name(owner)} '{name}' must be one positive integer or {axes} of them, got {value!r}")
    return found


def padding(owner: object, value: Padding) -> Padding:
    """Return 'valid', 'same' or a number of cells; raise TypeError or ValueError for anything else."""
    expected = f"{_name(owner)} 'padding' must be 'valid', 'same' or an integer of at least 0, got {value!r}"
    if isinstance(value, str):
        if value.lower() not in ("valid", "same"):
            raise ValueError(expected)
        return value.lower()
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(expected)
    if value < 0:
        raise ValueError(expected)
    return value


def axes_of(owner: str, shape: Shape) -> int:
    """Return 2 for images (batch, height, width, channels), 1 for sequences (batch, time, channels); raise ValueError else."""
    if len(shape) not in (3, 4) or BATCH in shape[1:]:
        expected = "(batch, height, width, channels) or (batch, time, channels)"
        raise ValueError(f"{owner}: expected inputs of shape {expected}, all but the batch known, got {shape}")
    return len(shape) - 2


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__

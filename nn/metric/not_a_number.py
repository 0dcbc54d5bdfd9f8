"""The search for NaN among predictions."""

from nn.arrays import Array


def has_nan(array: Array) -> bool:
    """Return whether there is a NaN, in one pass and without memory for a mask: a maximum stops at the first NaN."""
    if not array.size:
        return False
    largest: float = array.item(array.argmax())
    return largest != largest

"""Hashes of the weights after each epoch: workers write them down, and a node that trains again compares them with its own.

A row of the table `WH-<title>-N(i).csv` is the hash of one variable after one epoch. The *chain* has a link for each epoch: the
hash of the link before and of all rows of the epoch, so that one number stands for all epochs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HASH_COLUMNS: Final = ("Epoch", "Variable", "SHA256")
Epochs = Mapping[int, Mapping[str, Mapping[int, str]]]
"""Hashes on each worker, by epoch, from 1, and variable."""


def hash_of(value: Array) -> str:
    """Return the SHA-256 over type, shape and bytes of an array."""
    # little-endian everywhere, so that machines of either order agree
    plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    # type and shape, too: equal bytes of another shape are other weights
    digest = hashlib.sha256(f"{plain.dtype.str}{value.shape}\n".encode())
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def chain_of(epochs: Epochs) -> list[list[Any]]:
    """Return a link for each epoch, (epoch, hash): the same for any number of workers where all have the same weights."""
    links: list[list[Any]] = []
    last = ""
    for epoch, variables in sorted(epochs.items()):
        # values, not nodes: equal weights on any number of workers give one hash
        rows = {variable: sorted(set(values.values())) for variable, values in sorted(variables.items())}
        last = hashlib.sha256(f"{last} {epoch} {rows}".encode()).hexdigest()
        links.append([epoch, last])
    return links


def first_difference(one: Epochs, other: Epochs) -> tuple[int, str, int] | None:
    """Return where two runs part: epoch, variable, and the first worker of the second that has another value; None: nowhere.

    Epochs that one of them does not have do not count. A worker that one does not have is compared with the others.
    """
    for epoch in sorted(one.keys() & other.keys()):
        for variable, values in other[epoch].items():
            mine = one[epoch].get(variable, {})
            for node, value in sorted(values.items()):
                # workers with models of their own are compared each with itself
                if value not in ({mine[node]} if node in mine and len(set(mine.values())) > 1 else set(mine.values())):
                    return epoch, variable, node
    return None

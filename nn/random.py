"""Counter-based random numbers: a draw depends on a key alone, never on earlier draws."""

import hashlib
from numbers import Integral

import numpy as np

__all__ = ["keyed"]


def keyed(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """Return a generator that is a function of its key alone.

    The key (seed, purpose, counters) is hashed to the 128-bit key of a Philox generator (Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", 2011). Two calls with equal keys give equal numbers on every machine; keys that differ
    anywhere give independent streams. Counters are, for example, epoch, batch, block and layer.

    >>> keyed(7, "dropout", 0, 3).random() == keyed(7, "dropout", 0, 3).random()
    True
    """
    for value in (seed, *counters):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"keyed() takes integers as seed and counters, got {value!r}")
    # As int, so that equal numbers of Python and NumPy have one text; `repr` keeps a comma in the purpose from being read as
    # one of these.
    text = ",".join([str(int(seed)), repr(purpose), *(str(int(counter)) for counter in counters)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # The byte order is fixed, or machines would differ.
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))

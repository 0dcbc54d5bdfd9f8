"""Counter-based random numbers: a draw depends on a key alone, never on earlier draws."""

import hashlib
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

__all__ = ["keyed"]


class _Key(ISeedSequence):
    """Seed of a Philox generator that is its 128-bit key. `Philox(key=)` gives the same numbers and takes eight times as long,
    since it asks the system for a seed that it does not use.
    """

    def __init__(self, key: bytes) -> None:
        # the byte order is fixed, or machines would differ
        self._words = np.frombuffer(key, "<u8").astype(np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        if n_words != len(self._words) or dtype != np.uint64:
            raise ValueError(f"a key has {len(self._words)} words of 64 bits, got {n_words} of {np.dtype(dtype)}")
        return self._words


def keyed(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """Return a generator that is a function of its key alone.

    The key (seed, purpose, counters) is hashed to the 128-bit key of a Philox generator (Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", 2011). Two calls with equal keys give equal numbers on every machine; keys that differ
    anywhere give independent streams.

    Args:
        seed: seed of the job or of the model.
        purpose: a word for the use of the numbers.
        *counters: for example epoch, batch, block and layer.

    >>> keyed(7, "dropout", 0, 3).random() == keyed(7, "dropout", 0, 3).random()
    True
    """
    for value in (seed, *counters):
        # mostly one of Python: the look at its type is the fastest
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
            raise TypeError(f"keyed() takes integers as seed and counters, got {value!r}")
    # As int, so that equal numbers of Python and NumPy have one text; `repr` keeps a comma in the purpose from being read as
    # one of these.
    text = ",".join([str(int(seed)), repr(purpose), *(str(int(counter)) for counter in counters)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    # NumPy takes any ISeedSequence, its stubs a SeedSequence alone
    key: Any = _Key(digest)
    return np.random.Generator(np.random.Philox(key))

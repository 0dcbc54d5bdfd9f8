"""How much memory Python takes."""

import tracemalloc
from collections.abc import Callable


def peak_of(action: Callable[[], object]) -> int:
    """Most memory that Python takes meanwhile."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

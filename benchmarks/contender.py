"""One contender: `python <this file> <checkout> <module> <argument>` does a round for each line on stdin, with the product of
that checkout. Its benchmarks are used, and those of this checkout where it has no folder of that name.

`module` has `prepare(argument) -> Callable[[], float]`, which returns a function that does one round and gives its seconds.
A round of microseconds is done many times, and the median is its reply: done once it would tell how cold the caches are.
"""

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

LEAST_SECONDS = 0.05
"""By the wall clock, which a reply is made of: rounds that take less are repeated until then."""


def serve(module: str, argument: str) -> None:
    """One round per line on stdin, one reply per line on what stdout was at the start."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not disturb the replies
    run: Callable[[], float] | None = None
    for _ in sys.stdin:
        try:
            if run is None:
                run = importlib.import_module(module).prepare(argument)
            reply: dict[str, object] = {"seconds": median_round(run)}
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its reply
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def median_round(run: Callable[[], float]) -> float:
    """Return the seconds of a round, the median of so many as begin within LEAST_SECONDS."""
    end = time.perf_counter() + LEAST_SECONDS
    seconds = [run()]
    while time.perf_counter() < end:
        seconds.append(run())
    return statistics.median(seconds)


if __name__ == "__main__":
    sys.path[0] = sys.argv[1]  # in place of this folder, whose names hide those of the product
    sys.path_importer_cache.clear()

    import benchmarks

    benchmarks.__path__.append(str(Path(__file__).resolve().parent))
    serve(*sys.argv[2:])

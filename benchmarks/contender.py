"""One contender: `python <this file> <checkout> <module> <argument>` does a round for each line on stdin, with the product of
that checkout. Its benchmarks are used, and those of this checkout where it has no folder of that name, or where its own fail.

`module` has `prepare(argument) -> Callable[[], float]`, which returns a function that does one round and gives its seconds.
A round of microseconds is done many times, and the median is its reply: done once it would tell how cold the caches are.
"""

import importlib
import importlib.util
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable
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
                run, seconds = begun(module, argument)
            else:
                seconds = median_round(run)
            reply: dict[str, object] = {"seconds": seconds}
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its reply
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def begun(module: str, argument: str) -> tuple[Callable[[], float], float]:
    """Return the function that does a round, and the seconds of the first; where the checkout's own benchmark fails, of that
    which this checkout has.

    Raises: the error of the checkout's own benchmark where both fail.
    """

    def first() -> tuple[Callable[[], float], float]:
        run: Callable[[], float] = importlib.import_module(module).prepare(argument)
        return run, median_round(run)

    try:
        return first()
    except Exception:
        take_ours(re.findall(r"\bbenchmarks\.(\w+)\.", f"{module}. {argument}"))
        try:
            return first()
        except Exception:  # noqa: BLE001 - the first error is that of the product's own benchmark
            pass
        raise


def take_ours(folders: Iterable[str]) -> None:
    """Load folders of benchmarks anew, from this checkout; the others stay those of the product."""
    for folder in folders:
        place = Path(__file__).resolve().parent / folder
        if (place / "__init__.py").exists():
            package = f"benchmarks.{folder}"
            for name in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
                del sys.modules[name]
            spec = importlib.util.spec_from_file_location(
                package, place / "__init__.py", submodule_search_locations=[str(place)]
            )
            assert spec is not None and spec.loader is not None
            sys.modules[package] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[package])


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

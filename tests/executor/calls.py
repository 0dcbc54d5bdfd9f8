"""What the tests of executors call, in threads, processes and on agents."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network import NodeAssignment

LIMIT = 120.0


def alone(agents: NodeAssignment) -> NodeAssignment:
    """The first node only."""
    return NodeAssignment(key_file=agents.key_file).add(0, agents[0])


class Mistake(Exception):
    """An exception of the user, with a field and a constructor of its own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"mistake {code}")
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:  # so that it survives the pickles of ProcessPoolExecutor
        return Mistake, (self.code,)


@dataclass(frozen=True)
class Point:
    x: int
    y: int

    def swapped(self) -> Point:
        return Point(self.y, self.x)


def add(a: int, b: int = 0) -> int:
    return a + b


def arguments(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def fail(code: int) -> None:
    raise Mistake(code)


def divide(a: int, b: int) -> float:
    return a / b


def leave() -> None:
    raise SystemExit(3)


def die() -> None:
    os._exit(9)


def mirrored(point: Point) -> Point:
    return Point(point.y, point.x)


def own_pid(_: Any = None) -> int:
    return os.getpid()


def begin_and_await(begun: str, path: str) -> int:
    """Say that it runs, by its process id in the file `begun`; return once `path` exists."""
    Path(begun + ".new").write_text(str(os.getpid()))
    os.replace(begun + ".new", begun)
    await_path(Path(path))
    return os.getpid()


def end_after(path: str, how: str) -> None:
    """End the process once `path` exists: by an exit code, a segmentation fault, or SIGKILL."""
    await_path(Path(path))
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGSEGV if how == "signal" else signal.SIGKILL)


def await_path(path: Path) -> None:
    await_that(path.exists, f"{path} did not come")


def await_that(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.002)

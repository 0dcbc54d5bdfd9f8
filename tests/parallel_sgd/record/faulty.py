"""Errors at each call that follows the last batch, a few in each run, until none is left.

A profile function sees each call that our code makes, of its own functions and of those of Python, and raises in its place.
What was tried once is not tried again, so a test repeats a job until a run has no new call.
Methods of Python's containers, locks,
queues and collector are left out: they fail where there is no memory, and then so does all else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from io import IOBase
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = str(Path(__file__).parents[3])
LOGGERS = ("", "P-SGD Submit", "parallel_sgd", "parallel_sgd.record.report", "parallel_sgd.checkpoint", "parallel_sgd.writers")
GUARDS = (
    *("contextmanager.<locals>.helper", "GeneratorContextManager.__enter__", "GeneratorContextManager.__exit__", "._guard"),
    *("ExitStack.__init__", "ExitStack.__enter__", "ExitStack.__exit__"),
    *("Interrupts.__init__", "Interrupts.__enter__", "Interrupts.__exit__"),
    "sys.exc_info",  # with which a guard begins, and which takes what is there
    # in their place a lock stays held, or a thread asleep, as no error of a lock leaves it
    *("Condition.__enter__", "Condition.__exit__", "Condition.notify_all"),
)
"""Calls that make a guard: nothing guards these."""
SAFE = (
    "dict",
    "list",
    "set",
    "frozenset",
    "tuple",
    "str",
    "int",
    "deque",
    "lock",
    "RLock",
    "SimpleQueue",
    "_thread",
    "gc",
    "ContextVar",
)
INLINE = ("<dictcomp>", "<listcomp>", "<setcomp>", "<genexpr>", "<lambda>")
COLLECTED = (
    *("_weakrefset.py:", "weakref.py:", "junkdrawer.py:", "__init__.py:_removeHandlerRef"),
    "tables.py:_Lines.__iter__",  # a generator that was not begun: it is entered to be closed
)
"""Calls of the garbage collector, and of Hypothesis, which watches it; what they raise goes nowhere."""
TELLING = ("rpc/support/logs.py:filter", "record/spared.py:spared")
"""Callers by which a guard tells what it has spared."""
OF_GUARDS = (
    *("rpc/submit/terminal.py:__init__", "rpc/submit/terminal.py:__enter__", "rpc/submit/terminal.py:__exit__"),
    *("network/transport.py:__init__", "network/transport.py:close", "rpc/support/forks.py:catch"),
)
"""Callers within the guard against Ctrl-C, which makes and closes two sockets: an error in the place of a call leaves both."""
Key = tuple[str, str]


class Injected(Exception):
    """The error that is raised in the place of a call."""


class Injector(logging.Handler):
    """Raises at calls that follow the last batch, each once.

    `follows` tells of a frame whether it does, by the names of the functions that led to it, the innermost first. `depth`: how
    far below one of the `roots` a call may be; None is any. After an error nothing is injected until a warning tells that it
    was spared: what happens in between is its consequence. `exempt` are callers and calls that may fail, `own` the
    packages whose calls are tried.

    Attributes: `tried`, the calls at which an error was raised in all runs; `count`, how many in this one.
    """

    def __init__(
        self,
        follows: Callable[[FrameType], bool],
        roots: Collection[str],
        depth: int | None,
        exempt: tuple[str, ...] = (),
        own: tuple[str, ...] = ("parallel_sgd", "nn", "rpc", "network"),
    ) -> None:
        super().__init__(logging.WARNING)
        self.tried: set[Key] = set()
        self.count = 0
        self.note: Callable[[Key], None] = lambda _: None
        self.follows = follows
        self._roots, self._depth, self._exempt = roots, depth, (*TELLING, *OF_GUARDS, *exempt)
        self._own = tuple(f"{ROOT}{os.sep}{name}{os.sep}" for name in own)
        self._armed = self._active = False
        self._done: set[tuple[CodeType, Any]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Something was told: from the next call on there may be another error."""
        if self._active:
            self._armed = True
            sys.setprofile(self._profile)  # which the error that it raised has ended

    @contextmanager
    def injecting(self) -> Iterator[None]:
        """Inject errors in the block, in this thread, from when `begin` is called."""
        self.attach()
        try:
            yield
        finally:
            sys.setprofile(None)
            self._active = False
            for name in LOGGERS:
                logging.getLogger(name).removeHandler(self)

    def attach(self) -> None:
        """Hear what is told."""
        self.count = 0
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def begin(self) -> None:
        """The last batch is over."""
        if not self._active:
            self._active = self._armed = True
            sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._armed or event not in ("call", "c_call"):
            return
        caller = frame if event == "c_call" else frame.f_back
        if caller is None:
            return
        place = (caller.f_code, frame.f_code if event == "call" else argument)
        if place in self._done or not caller.f_code.co_filename.startswith(self._own):
            return
        itself: Any = None
        if event == "call":
            if frame.f_code.co_flags & 0x20 and frame.f_lasti > 10:  # a generator that goes on
                return
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            callee = f"{Path(frame.f_code.co_filename).name}:{name}"
        else:
            itself = getattr(argument, "__self__", None)
            kind = itself.__name__ if isinstance(itself, type) else type(itself).__name__
            owner = getattr(argument, "__module__", None) or kind
            if kind in SAFE or owner in SAFE:
                self._done.add(place)
                return
            callee = f"{owner}.{argument.__name__}"
        key = (f"{caller.f_code.co_filename.removeprefix(ROOT)}:{caller.f_code.co_name}", callee)
        if (
            callee.startswith(COLLECTED)
            or callee.endswith(("__del__", *GUARDS, *INLINE, *self._exempt))
            or key[0].endswith(self._exempt)
            or key in self.tried
        ):
            self._done.add(place)
            return
        if not self._is_near(caller) or not self.follows(frame):
            return
        self._done.add(place)
        if event == "c_call" and argument.__name__ in ("__exit__", "close") and isinstance(itself, IOBase):
            # a file whose closing fails, as it may where the disk is full, is closed all the same
            itself.close()
        self.tried.add(key)
        self.note(key)
        self.count += 1
        self._armed = False
        raise Injected(f"in {key[0]}, in the place of {key[1]}")

    def _is_near(self, caller: FrameType) -> bool:
        each: FrameType | None = caller
        depth = 0
        while self._depth is not None and each is not None and each.f_code.co_name not in self._roots:
            depth += each.f_code.co_filename.startswith(self._own)
            if depth > self._depth:
                return False
            each = each.f_back
        return each is not None or self._depth is None

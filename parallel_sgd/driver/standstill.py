"""Watch over a job inside this process: it tells of a method of the user's that does not return.

On workers the failure detector ends a process that is stuck. Here the method runs in the thread of the program, which nothing
can end, so the watch says where it is, and the user decides.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from types import FrameType, TracebackType
from typing import Final

from rpc.support.logs import SUBMIT_LOGGER, get_logger
from rpc.user_code import called, is_users, place_of

#: Seconds from one look to the next.
_LOOK: Final = 0.25
#: Seconds of a call that Ctrl-C is told of: shorter ones come and go.
_LONG: Final = 1.0
#: Packages in which a program stands at a breakpoint, where the user knows that nothing goes on.
_DEBUGGERS: Final = frozenset({"bdb", "pdb", "IPython", "_pydevd_bundle", "debugpy"})
_log = get_logger(SUBMIT_LOGGER)
_Frames = list[tuple[FrameType, int]]


class StandstillWatch:
    """Watch over the calls of this thread, from `begin` until `end`, or until the function that began it has returned.

    It warns of a method of the user's that has not returned for `limit` seconds, again after twice the time each, and says in
    which one Ctrl-C has come, where that had not returned for a second.

    Args:
        limit: seconds after which a call is told.

    Attribute: `progress`, a function that returns another value whenever the job has gone on. A generator of the user's has
    one frame for all its life, so the frame alone does not tell whether it has yielded meanwhile.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.progress: Callable[[], object] = tuple
        self._moved: object = ()
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        # in a copy of the context, which holds how much a console shows
        self._watcher = threading.Thread(target=copy_context().run, args=(self._run,), name="standstill", daemon=True)
        # frames that have called this one are not looked at
        self._bottom: FrameType | None = None
        # the frame itself is kept until the next look, since a later one may get its id
        self._outermost: FrameType | None = None
        self._since = self._due = 0.0

    def begin(self) -> None:
        """Watch the calls of the calling function."""
        self._bottom = sys._getframe(1)
        # no further thread may be started: the job goes on without a watch
        with contextlib.suppress(RuntimeError):
            self._watcher.start()

    def end(self) -> None:
        """End the watch, and let go of the frames, which hold all that their functions had."""
        self._ended.set()
        if self._watcher.ident is not None:
            self._watcher.join()
        self._bottom = self._outermost = None

    def tell_of_interrupt(self, trace: TracebackType | None) -> None:
        """Tell the method in which Ctrl-C has come, where it had not returned for long.

        Args:
            trace: the traceback of the KeyboardInterrupt.
        """
        # the first frame of the traceback is the one that began the watch
        found = [(frame, line) for frame, line in traceback.walk_tb(trace) if is_users(frame) and frame is not self._bottom]
        seconds = monotonic() - self._since
        if found and found[0][0] is self._outermost and seconds >= _LONG:
            _log.warning("Ctrl-C came in %s (%s), after %.0f s.", called(found[0][0]), place_of(found), seconds)

    def _run(self) -> None:
        was_there = True
        while not self._ended.wait(_LOOK):
            frames = self._frames()
            # a generator that yields during a look loses its callers in that one look
            if frames is None and not was_there:
                return
            was_there = frames is not None
            if frames is not None:
                self._look(frames, monotonic())

    def _look(self, frames: _Frames, now: float) -> None:
        outermost, moved = frames[0][0] if frames else None, self.progress()
        if outermost is not self._outermost or moved != self._moved:
            self._outermost, self._moved, self._since, self._due = outermost, moved, now, self._limit
        elif frames and now - self._since >= self._due:
            self._due *= 2
            seconds = now - self._since
            _log.warning("%s has not returned for %.0f s (%s).", called(frames[0][0]), seconds, place_of(frames))

    def _frames(self) -> _Frames | None:
        """Return the frames of the user's in which the watched function is, outermost first; none at a breakpoint, and None
        when the function has returned.
        """
        found: _Frames = []
        stopped = False
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._bottom:
            stopped = stopped or str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS
            if is_users(frame):
                found.append((frame, frame.f_lineno))
            frame = frame.f_back
        return None if frame is None else [] if stopped else found[::-1]

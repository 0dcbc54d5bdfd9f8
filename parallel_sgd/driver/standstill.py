"""Watch over a job inside this process: it tells of a method of the user's that does not return.

On workers the failure detector ends a process that is stuck. Here the method runs in the thread of the program, which nothing
can end, so the watch says where it is, and the user decides.
"""

from __future__ import annotations

import sys
import threading
import traceback
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
    """Watch over what this thread calls while the `with` block runs.

    It warns of a method of the user's that has not returned for `limit` seconds, again after twice the time each, and says in
    which one Ctrl-C has come, where that had not returned for a second.

    Args:
        limit: seconds after which a call is told.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._ended = threading.Event()
        self._thread = threading.get_ident()
        # in a copy of the context, which holds how much a console shows
        self._watcher = threading.Thread(target=copy_context().run, args=(self._run,), name="standstill", daemon=True)
        # frames that have called this one are not looked at
        self._bottom: FrameType | None = None
        # the frame itself is kept until the next look, since a later one may get its id
        self._outermost: FrameType | None = None
        self._since = self._due = 0.0

    def __enter__(self) -> None:
        self._bottom = sys._getframe(1)
        self._watcher.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if isinstance(error, KeyboardInterrupt):
                self._tell_of_interrupt(trace)
        finally:
            self._ended.set()
            self._watcher.join()
            # frames hold all that their functions had
            self._bottom = self._outermost = None

    def _run(self) -> None:
        while not self._ended.wait(_LOOK):
            self._look(self._frames(), monotonic())

    def _look(self, frames: _Frames, now: float) -> None:
        outermost = frames[0][0] if frames else None
        if outermost is not self._outermost:
            self._outermost, self._since, self._due = outermost, now, self._limit
        elif frames and now - self._since >= self._due:
            self._due *= 2
            seconds = now - self._since
            _log.warning("%s has not returned for %.0f s (%s).", called(frames[0][0]), seconds, place_of(frames))

    def _frames(self) -> _Frames:
        """Return the frames of the user's that the block is in, outermost first; none at a breakpoint."""
        found: _Frames = []
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._bottom:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
                return []
            if is_users(frame):
                found.append((frame, frame.f_lineno))
            frame = frame.f_back
        return found[::-1]

    def _tell_of_interrupt(self, trace: TracebackType | None) -> None:
        # the first frame of the traceback is the one with the block
        found = [(frame, line) for frame, line in traceback.walk_tb(trace) if is_users(frame) and frame is not self._bottom]
        seconds = monotonic() - self._since
        if found and found[0][0] is self._outermost and seconds >= _LONG:
            _log.warning("Ctrl-C came in %s (%s), after %.0f s.", called(found[0][0]), place_of(found), seconds)

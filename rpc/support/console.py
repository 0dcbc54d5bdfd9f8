"""Standard streams of our programs: they are open, and a reader that does not read holds up no agent, submitter or job.

A console writes to a pipe or a terminal over a description of its own, which is non-blocking: the one that the program was
given may be shared with other programs, and the flag would be theirs, too. Text that does not fit waits in memory, up to
`WAITING_BYTES`; further text is left out and counted, and a line says so as soon as the stream takes text again. No
thread is needed, so nothing is left behind, and nothing fails where a process may start none.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import errno
import fcntl
import functools
import io
import os
import re
import select
import socket
import stat
import sys
import termios
import textwrap
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, TextIO

STDIN, STDOUT, STDERR = 0, 1, 2
EXIT_NOT_SHOWN: Final = 74  # EX_IOERR: done, but the result could not be printed
UNREAD: Final = "nobody reads it"

WAITING_BYTES: Final = 256 << 10  # of text that a stream has not taken
RESULT_SECONDS: Final = 5.0  # without a byte taken, until a result counts as one that cannot be printed
LAST_SECONDS: Final = 1.0  # for text that waits when the program ends
_MOST_CREDIT: Final = 0.25  # seconds for which a writer waits for a reader at most,
_CREDIT: Final = 0.05  # as a share of the time that has passed
_POLL_SECONDS: Final = 0.05
_LATER_SECONDS: Final = 0.01  # by then the finalizer has mostly returned; if not, it is put off again
_ATOMIC_BYTES: Final = min(select.PIPE_BUF, 4096)
_GAP: Final = "  "
"""Gap between the columns of a table."""
_NARROWEST: Final = 12
"""Characters that a column of a table has at least."""
_FIGURES: Final = " " * 3
"""Gap between the figures of a line."""
_HEAD: Final = re.compile(r" *\S+(?: \S+)* {2,}")
"""Begin of a line, up to its first gap."""
_HARD: Final = "\N{NO-BREAK SPACE}"
_BUFFERED: Final = 2 * io.DEFAULT_BUFFER_SIZE  # characters that a stream of Python holds back, and bytes


def open_descriptors() -> None:
    """Open those of the descriptors 0, 1 and 2 that are closed on /dev/null, so that no file or socket gets their numbers.

    Call it before anything is opened that stays open. Those of `sys.stdin`, `sys.stdout` and `sys.stderr` that are None,
    because their descriptor was closed, become streams again.
    """
    for number, name in ((STDIN, "stdin"), (STDOUT, "stdout"), (STDERR, "stderr")):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, this one: those below are open by now
        os.set_inheritable(number, True)
        _closed.add(number)
        if getattr(sys, name) is None:
            mode, errors = ("r", "strict") if number == STDIN else ("w", "backslashreplace")
            stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  for the whole program
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def guard_streams() -> None:
    """Put streams that hold up no writer in place of `sys.stdout` and `sys.stderr`, for all that is printed in this process."""
    for descriptor, name in ((STDOUT, "stdout"), (STDERR, "stderr")):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:
            # what was printed before comes first
            stream.flush()
            setattr(sys, name, ConsoleStream(_CONSOLES[descriptor], stream.encoding))


_closed: Final = set[int]()  # descriptors that were closed when this program began


class Console:
    """Writer to one of the descriptors 1 and 2 of this process, for any thread, that never waits long for a reader.

    A write waits for a live reader, `_MOST_CREDIT` seconds at most and a twentieth of the time on the whole; one that has taken
    nothing in that time is not waited for again until it takes something.

    Attributes: `lost`, how many bytes have been left out; `problem`, why, in words; `told_in`, where left-out lines are, too.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.lost, self.problem, self.told_in = 0, "", ""
        # reentrant: a signal handler may log while the same thread writes
        self._lock = threading.RLock()
        self._waiting = deque[bytes]()
        self._waiting_bytes = self._left_out = 0
        self._mid_line = self._stuck = self._pushing = False
        self._credit, self._since = _MOST_CREDIT, time.monotonic()
        self._target: int | socket.socket = -1
        self._file: tuple[int, int] | None = None  # device and inode to which the target belongs

    def write(self, data: bytes) -> None:
        """Write as much as the stream takes now; the rest waits, or is left out where too much waits already."""
        if not data:
            return
        with self._lock:
            if self._waiting:
                self._push(0.0)
            if self._left_out and not self._waiting:
                self._note_left_out()
            # in order: once something was left out, nothing later overtakes the line that says so
            if self._left_out or self._waiting_bytes + len(data) > max(WAITING_BYTES, len(data) if not self._waiting else 0):
                self._leave_out(data, UNREAD if self._waiting else self.problem)
                return
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            now = time.monotonic()
            # a twentieth of the time that has passed: a slow reader costs the program no more than that
            self._credit = min(_MOST_CREDIT, self._credit + _CREDIT * (now - self._since))
            self._since = now
            self._push(0.0 if self._stuck else self._credit)
            self._credit -= min(self._credit, time.monotonic() - now)

    def settle(self, seconds: float | None = 0.0, *, anew: bool = False) -> bool:
        """Show the waiting text, and how much was left out; return whether all of it is shown.

        Args:
            seconds: to wait at most; None for as long as it takes.
            anew: each byte that is taken begins the time anew.
        """
        with self._lock:
            self._push(seconds, anew)
            if self._left_out and not self._waiting:
                self._note_left_out()
                self._push(seconds, anew)
            return not self._waiting and not self._left_out

    def begin_anew(self) -> None:
        """Forget the waiting text, which is the parent's, in a process that was forked."""
        # the parent's may be held by a thread that is not here
        self._lock = threading.RLock()
        self._waiting.clear()
        self._waiting_bytes = self._left_out = self.lost = 0
        self._pushing = False

    def takes(self, size: int) -> bool:
        """Return whether so many bytes can be written to the descriptor at once without waiting, as far as can be seen."""
        try:
            kind = os.fstat(self.descriptor).st_mode
            if not stat.S_ISFIFO(kind):
                # a regular file takes everything at once, or fails
                return stat.S_ISREG(kind) or bool(_writable(self.descriptor, 0.0))
            unread = int.from_bytes(fcntl.ioctl(self.descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
            room = fcntl.fcntl(self.descriptor, fcntl.F_GETPIPE_SZ) if hasattr(fcntl, "F_GETPIPE_SZ") else _ATOMIC_BYTES
        except (OSError, ValueError):
            return False
        return room - 2 * unread >= size  # of a page that holds a short text the rest may be lost

    def _push(self, seconds: float | None, anew: bool = False) -> None:
        """Write the waiting text, for `seconds` at most; with `anew` each byte that is taken begins them anew."""
        if self._pushing:  # a signal handler writes, too: its text waits for that of the one that it has interrupted
            return
        self._pushing = True
        try:
            self._push_for(seconds, anew)
        finally:
            self._pushing = False

    def _push_for(self, seconds: float | None, anew: bool) -> None:
        begin = time.monotonic()
        while self._waiting:
            data = self._waiting[0]
            try:
                taken = self._write_some(data)
            except OSError as error:
                self._fail(error)
                return
            if taken:
                self._stuck = False
                self._mid_line = not data[:taken].endswith(b"\n")
                self._waiting_bytes -= taken
                if taken == len(data):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = data[taken:]
                begin = time.monotonic() if anew else begin
                continue
            left = _POLL_SECONDS if seconds is None else min(_POLL_SECONDS, begin + seconds - time.monotonic())
            if left <= 0:
                # it took nothing in all that time, so it is not waited for again until it does
                self._stuck = self._stuck or bool(seconds)
                return
            _writable(self._number, left)

    @property
    def _number(self) -> int:
        return self._target if isinstance(self._target, int) else self._target.fileno()

    def _write_some(self, data: bytes) -> int:
        """Return how many bytes the stream has taken; 0 when it takes none now. Raises: OSError when it is broken."""
        if self.descriptor in _closed:
            # not written to: after `open_descriptors` it is /dev/null, and the text would count as shown
            raise OSError(errno.EBADF, "it was closed when the program began")
        found = os.fstat(self.descriptor)
        if (found.st_dev, found.st_ino) != self._file:  # another one since: the program has redirected it
            self._let_go()
            self._target, self._file = _own_end(self.descriptor, found.st_mode), (found.st_dev, found.st_ino)
        try:
            if not isinstance(self._target, int):
                return self._target.send(data, socket.MSG_DONTWAIT)
            # a shared description: writing to a full one would block
            if self._target == self.descriptor and not stat.S_ISREG(found.st_mode):  # it may block
                if not _writable(self._target, 0.0):
                    return 0
                # so much a pipe that polls as writable takes without blocking
                data = data[:_ATOMIC_BYTES]
            return os.write(self._target, data)
        except BlockingIOError:
            return 0

    def _let_go(self) -> None:
        if not isinstance(self._target, int):
            self._target.close()
        elif self._target not in (-1, self.descriptor):
            os.close(self._target)
        self._target, self._file = -1, None

    def _fail(self, error: OSError) -> None:
        """Leave out the waiting text, which the stream refuses; later text is tried again."""
        for data in self._waiting:
            self._leave_out(data, error.strerror or str(error))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _leave_out(self, data: bytes, problem: str) -> None:
        self.problem = problem
        self.lost += len(data)
        self._left_out += max(1, data.count(b"\n"))

    def _note_left_out(self) -> None:
        """Put the number of lines that were left out before the next text, if the stream takes it."""
        lines, self._left_out = self._left_out, 0
        where = f"; they are in {self.told_in}" if self.told_in else ""
        text = f"[{lines:,} line{'s were' if lines > 1 else ' was'} left out here: {self.problem}{where}]\n"
        # on a line of its own
        note = b"\n" * self._mid_line + text.encode("utf-8", "backslashreplace")
        lost = self.lost
        self._waiting.append(note)
        self._waiting_bytes += len(note)
        self._push(0.0)
        if self._left_out:  # it was refused, too: nothing is lost by that
            self._left_out, self.lost = lines, lost


def _writable(descriptor: int, seconds: float) -> bool:
    """Return whether a descriptor takes bytes, or fails at once, within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _own_end(descriptor: int, mode: int) -> int | socket.socket:
    """Return an end of the same file that writes without waiting and without a flag that other programs share.

    Where the system gives none (macOS, a terminal of another user) it is the descriptor itself, which is asked before a write.
    """
    if stat.S_ISSOCK(mode):
        # a socket cannot be opened through /proc; MSG_DONTWAIT does it for each send
        return socket.socket(fileno=os.dup(descriptor))
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):
            # a new description of the same pipe or terminal: its flag is ours alone
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return descriptor


class ConsoleStream(io.TextIOBase):
    """Text stream over a console. `flush` shows as much as can be shown at once, and waits for nothing.

    Args:
        console: writes the text.
        encoding: of the text; characters that it lacks are shown as escapes.
        before: is called before each write, for text of others that has to come first.
    """

    def __init__(self, console: Console, encoding: str, before: Callable[[], None] | None = None) -> None:
        self.console = console
        self._encoding, self._before = encoding, before
        self.buffer = _Bytes(console)
        self.name, self.mode, self.line_buffering = f"<descriptor {console.descriptor}>", "w", True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    def write(self, text: str) -> int:
        """Show `text`, or as much as the stream takes; return its length."""
        if self._before is not None:
            self._before()
        self.console.write(text.encode(self._encoding, "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Show as much of the waiting text as the stream takes at once."""
        self.console.settle()

    def fileno(self) -> int:
        return self.console.descriptor

    def isatty(self) -> bool:
        return os.isatty(self.console.descriptor)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the descriptor open, as other streams may stand for it."""


class _Bytes(io.RawIOBase):
    """Binary stream over a console, for programs that write to `sys.stdout.buffer`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, data: Any) -> int:
        self._console.write(bytes(data))
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._console.descriptor

    def close(self) -> None:
        """Leave the descriptor open, as other streams may stand for it."""


_CONSOLES: Final = {descriptor: Console(descriptor) for descriptor in (STDOUT, STDERR)}


@functools.cache
def _stream(descriptor: int, stream: TextIO) -> ConsoleStream:
    console = _CONSOLES[descriptor]

    def before() -> None:
        with contextlib.suppress(OSError, ValueError):
            if console.takes(_BUFFERED):
                stream.flush()

    # standard error holds nothing back but the line that is being written
    return ConsoleStream(console, stream.encoding or "utf-8", before if descriptor == STDOUT else None)


def console_stream(stream: TextIO | None) -> TextIO:
    """Return the stream to use in place of `sys.stdout` or `sys.stderr` of a program, so that it never holds up the writer.

    A stream that a program has put in its place (of a notebook, of a test, a file) is returned as it is.
    """
    if stream is None:  # the program began with a closed descriptor
        return _Nowhere()
    for descriptor, original in ((STDOUT, sys.__stdout__), (STDERR, sys.__stderr__)):
        if stream is original and type(stream) is io.TextIOWrapper and _goes_to(stream, descriptor):
            return _stream(descriptor, stream)  # type: ignore[return-value]  # typeshed knows a TextIO by name only
    return stream


def _goes_to(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor and not stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):
        return False


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def in_columns(rows: Sequence[Sequence[str]], columns: int = 0) -> str:
    """Return rows of equally many cells as lines, each column as wide as its widest cell.

    Args:
        rows: the cells, those of the head first.
        columns: width of the terminal; where a row is wider, the cells that have no room stand in further lines below its
            first cell. 0 for lines of any length.

    >>> print(in_columns([("RUN", "STATE"), ("P-SGD-1", "done")]))
    RUN      STATE
    P-SGD-1  done
    >>> print(in_columns([("RUN", "STATE"), ("P-SGD-1", "done")], 10))
    RUN
             STATE
    P-SGD-1
             done
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    indent = widths[0] + len(_GAP)
    starts, used = [0], 0
    for place, width in enumerate(widths):
        if columns and place and used + width > columns:
            starts.append(place)
            used = indent
        used += width + len(_GAP)
    parts = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(widths)], strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        first, *below = [(" " * (indent * bool(part.start)) + _GAP.join(cells[part])).rstrip() for part in parts]
        lines += [first, *filter(None, below)]
    return "\n".join(lines)


def side_by_side(rows: Sequence[Sequence[str]], columns: int = 0) -> str:
    """Return rows as `in_columns` does, where a row that is wider than the terminal has cells of several lines.

    Args:
        rows: the cells, those of the head first.
        columns: width of the terminal; one that leaves a column too little room gets the lines of `in_columns`. 0 for lines of
            any length.

    >>> print(side_by_side([("", "run-1", "run-2"), ("best", "epoch 6, 0.8653", "epoch 2, 0.7239")], 32))
          run-1     run-2
    best  epoch 6,  epoch 2,
          0.8653    0.7239
    """
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = columns - first - len(_GAP) * len(others)
    # the widest that all columns may have: narrower ones leave theirs to the others
    limit = max((width for width in range(_NARROWEST, room + 1) if sum(min(width, own) for own in others) <= room), default=0)
    if not limit or max(others) <= limit:
        return in_columns(rows, columns)
    lines: list[Sequence[str]] = []
    for name, *cells in rows:
        parts = [textwrap.wrap(cell, limit) or [""] for cell in cells]
        lines += zip_longest([name], *parts, fillvalue="")
    return in_columns(lines)


def fitted(text: str, stream: TextIO | None) -> str:
    """Return text with lines broken where the terminal behind a stream ends, between figures or words.

    Lines that begin with a tab stay, as those of a traceback do; so does all text where the stream is no terminal.

    Args:
        text: the text.
        stream: the stream on which it is to be printed; None for no terminal.
    """
    columns = columns_of(stream)
    if not columns:
        return text
    return "\n".join(line if line.startswith("\t") else _broken(line, columns) for line in text.split("\n"))


def columns_of(stream: TextIO | None) -> int:
    """Return the width of the terminal behind a stream, 0 where it is none or does not tell it."""
    try:
        if stream is None or not stream.isatty():
            return 0
        told = os.environ.get("COLUMNS", "")
        return int(told) if told.isdecimal() and len(told) < 6 else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def _broken(line: str, columns: int) -> str:
    """Break a line at its words, or only between figures, which stay with their names, where it has several.

    What follows is indented: as far as the text behind the first gap, else as the line itself, by two at least.
    """
    if len(line) <= columns:
        return line
    blanks = len(line) - len(line.lstrip())
    head = _HEAD.match(line)
    indent = max(blanks, 2) if head is None else head.end()
    text = line[indent:] if head else line[blanks:]
    # several gaps: figures, whose own blanks are no places to break at
    if _FIGURES in text:
        # an epoch with one metric is one character longer than a usual terminal is wide
        if len(narrow := line.replace(_FIGURES, _GAP)) <= columns:
            return narrow
        text = text.replace(" ", _HARD).replace(_HARD * len(_FIGURES), _FIGURES)
    whole = line[blanks:indent] + text if head else text
    lines = textwrap.wrap(
        whole,
        max(columns, indent + 1),
        initial_indent=" " * blanks,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_HARD, " ")


def show(stream: TextIO | None, text: str) -> None:
    """Write text that is no result to `sys.stdout` or `sys.stderr`, as far as it can be shown."""
    shown = console_stream(stream)
    with contextlib.suppress(OSError, ValueError):  # a stream of the program's own is closed or full
        shown.write(text)
        shown.flush()


def show_result(text: str, seconds: float | None = RESULT_SECONDS) -> str:
    """Write a result to standard output, and wait until it is taken; returns why it could not be printed, "" if it was.

    Args:
        text: of the result, with its last newline.
        seconds: to wait at most without a byte being taken; None for as long as it takes, where nothing else waits.
    """
    if sys.stdout is None:
        return "it was closed when the program began"
    try:
        stream = sys.stdout if isinstance(sys.stdout, ConsoleStream) else console_stream(sys.stdout)
        if isinstance(stream, ConsoleStream):
            console = stream.console
            console.settle(seconds, anew=True)  # else it might be left out with the waiting text
            before = console.lost
            stream.write(text)
            shown = console.settle(seconds, anew=True)
            return "" if shown and console.lost == before else console.problem or UNREAD
        stream.write(text)
        stream.flush()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def settle_all(seconds: float | None = 0.0) -> None:
    """Show the text that waits for standard output and standard error, see `Console.settle`."""
    for console in _CONSOLES.values():
        console.settle(seconds)


def tell_where(place: str) -> None:
    """Say in consoles that lines which were left out are in `place`, a log file; "" if in none."""
    _CONSOLES[STDERR].told_in = place


def _after_fork() -> None:
    for console in _CONSOLES.values():
        console.begin_anew()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(settle_all, LAST_SECONDS)


def _interrupt_later() -> None:
    time.sleep(_LATER_SECONDS)
    _thread.interrupt_main()


@contextlib.contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Raise, in the block, a Ctrl-C that comes in the finalizer of an object, or in the callback of a weak reference, a moment
    later.

    Python prints an exception of such a place ("Exception ignored in ..") and goes on, so that the program would not end, nor
    be quiet. It does nothing outside of the main thread, the only one that Ctrl-C reaches.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def put_off(told: Any) -> None:
        if not issubclass(told.exc_type, KeyboardInterrupt):
            before(told)
            return
        # not from here: Python would take it before it leaves this function
        while True:
            try:
                _thread.start_new_thread(
                    _interrupt_later, ()
                )  # a Timer would wait for its thread, and Ctrl-C may come meanwhile
                return
            except KeyboardInterrupt:  # one more, in here: it is put off with the other
                continue
            except RuntimeError:  # the interpreter ends, which is all that was wanted
                return

    sys.unraisablehook = put_off
    try:
        yield
    finally:
        if sys.unraisablehook is put_off:
            sys.unraisablehook = before


def run_program(main: Callable[[], int]) -> int:
    """Run the main function of a program of ours on streams that are open and hold up nothing; returns its exit code.

    Where it is 0 and not all of its output could be printed, the code is 74, and standard error says so.
    """
    open_descriptors()
    guard_streams()
    warnings.showwarning = _warn_in_words(warnings.showwarning)
    with interrupts_put_off():
        try:
            return _settled(main())
        except SystemExit as ended:  # --help, for one
            if ended.code not in (0, None):
                raise
            raise SystemExit(_settled(0)) from None


def _warn_in_words(shown: Callable[..., None]) -> Callable[..., None]:
    """Return a function that shows the text alone of a warning of the program itself, a command of ours, and another one as
    `shown` does: no line of a command would tell its user more.
    """

    def warn(message: Warning | str, category: type[Warning], filename: str, *rest: Any, **more: Any) -> None:
        if os.path.realpath(filename) == os.path.realpath(sys.argv[0]):
            show(sys.stderr, fitted(f"warning  {message}", sys.stderr) + "\n")
        else:
            shown(message, category, filename, *rest, **more)

    return warn


def _settled(code: int) -> int:
    console = _CONSOLES[STDOUT]
    shown = console.settle(LAST_SECONDS if code else RESULT_SECONDS, anew=not code)
    if code or (shown and not console.lost):
        return code
    show(sys.stderr, f"Not all could be printed on standard output ({console.problem or UNREAD}).\n")
    return EXIT_NOT_SHOWN

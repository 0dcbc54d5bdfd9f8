"""Page of a run while it goes on: read-only, on this machine alone, for viewers that have its address with the token in it.

The page gives training no work: it reads the tables that the workers write anyway, only while there are viewers, and for all of
them together. Its threads stand back where the machine is busy, and the time between two states is `_REST` times the seconds of
a core that one has taken, within limits; where all viewers are tabs in the background, the longest. A viewer that reads slowly
gets fewer states, and keeps no other waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from rpc.support.logs import SUBMIT_LOGGER, clean_text, get_logger

from .data import page_data, platform_of
from .records import RunRecords
from .report import chart, document, embedded, script
from .sources import Seen, Source

# Starlette's, which is an optional extra
Request: TypeAlias = Any
Response: TypeAlias = Any
Application: TypeAlias = Any
HERE: Final = "127.0.0.1"
SECONDS: Final = 1.5
_MOST_SECONDS: Final = 60.0
MOST_VIEWERS: Final = 400
MOST_STRANGERS: Final = 64
STRANGER_SECONDS: Final = 5.0
# one two-hundredth of a core at most
_REST: Final = 200
_NICE: Final = 15
_LOG_LINES: Final = 80
_SHOWN: Final = 40  # batches of each worker
_STALL_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 3.0
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # which counts in a header only
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_IS_VIEWER: Final = "parallel_sgd.is_viewer"
_BEHIND: Final = "#token="  # the address, before the token


class LivePage:
    """Server of the page of the job at which `source` looks, as long as the context lasts.

    Args:
        source: where to look.
        port: on this machine; 0 for a free one.
        about: facts that are known before the first batch: `title`, `settings` (rows of a table), `model` (its summary).

    Attributes: `address`, with the token; `end`, how the job has ended, which the last state tells (`state`, `message`, ...).

    Raises: OSError when the port is in use, ImportError without the extra `page`.
    """

    def __init__(self, source: Source, port: int = 0, about: Mapping[str, Any] | None = None) -> None:
        try:
            import uvicorn  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ImportError("The live page needs Starlette and uvicorn: pip install starlette uvicorn") from error
        self._feed = _Feed(source, about or {})
        # 144 random bits: the address is the only key to the page
        self._token = secrets.token_urlsafe(18)
        self._socket = socket.socket()
        try:
            # a page that is opened again soon after another one has ended has the same port
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HERE, port))
            self._socket.listen(128)  # from now on viewers that come wait until the thread is there
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        # behind the #, where no request and no log of a server tells it; the page takes it out of the address
        self.address = f"http://{HERE}:{self.port}/{_BEHIND}{self._token}"
        # its logs would go to the user's terminal
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}
        less: dict[str, Any] = {"lifespan": "off", "ws": "none", "timeout_graceful_shutdown": int(_CLOSE_SECONDS)}
        self._html = _html()
        config = uvicorn.Config(self._application(), http=_few(self._token), **quiet, **less)
        config.load()  # now, before there is a viewer that it could hold up
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="live page", daemon=True)

    @property
    def end(self) -> Mapping[str, str]:
        return self._feed.end

    @end.setter
    def end(self, end: Mapping[str, str]) -> None:
        self._feed.end = end

    def __enter__(self) -> LivePage:
        get_logger(SUBMIT_LOGGER).addHandler(self._feed.lines)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give viewers the last state; they keep the page as they see it."""
        get_logger(SUBMIT_LOGGER).removeHandler(self._feed.lines)
        self._feed.close()
        self._server.should_exit = True
        self._thread.join(2 * _CLOSE_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        if sys.platform == "linux":  # elsewhere threads have no priority of their own
            with contextlib.suppress(OSError):
                # a page must not slow the training that it shows
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        self._server.run([self._socket])

    def _application(self) -> Application:
        from starlette.applications import Starlette  # noqa: PLC0415 - an optional extra
        from starlette.middleware import Middleware  # noqa: PLC0415
        from starlette.middleware.trustedhost import TrustedHostMiddleware  # noqa: PLC0415
        from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse  # noqa: PLC0415
        from starlette.routing import Route  # noqa: PLC0415

        async def page(_request: Request) -> Response:
            return HTMLResponse(self._html, headers=_HEADERS)  # which tells nothing of a run

        async def events(request: Request) -> Response:
            if not request.scope[_IS_VIEWER]:
                text = "This page needs the token: open the whole address that was printed.\n"
                return PlainTextResponse(text, 403, _HEADERS)
            states = self._feed.states(is_hidden="hidden" in request.query_params)
            return StreamingResponse(states, media_type="text/event-stream", headers=_HEADERS)

        routes = [Route("/", page, methods=["GET"]), Route("/events", events, methods=["GET"])]
        # a name that a stranger's server gives for this machine is no way round the token
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HERE, "localhost"], www_redirect=False)
        return Starlette(routes=routes, middleware=[hosts])


def _few(token: str) -> type[asyncio.Protocol]:
    """Make the server's protocol, which keeps few connections: files and memory are there for the job.

    A connection is a stranger's until a request with the token comes over it, for which it has `STRANGER_SECONDS`. Where there
    are `MOST_STRANGERS` the oldest goes, so that they take no room from viewers. One viewer too many is hung up on, and one
    that takes nothing any more.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - an optional extra

    strangers: dict[asyncio.Protocol, asyncio.TimerHandle] = {}  # the oldest first
    viewers: set[asyncio.Protocol] = set()

    class Few(H11Protocol):  # type: ignore[misc]  # untyped without the extra
        app: Any
        stalled: asyncio.TimerHandle | None = None

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            page = self.app

            async def admitting(scope: Any, receive: Any, send: Any) -> None:
                scope[_IS_VIEWER] = _holds(scope["query_string"], token)
                if scope[_IS_VIEWER] and not self._is_admitted():
                    self.transport.abort()
                else:
                    await page(scope, receive, send)

            self.app = admitting

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(strangers) >= MOST_STRANGERS:
                oldest: Any = next(iter(strangers))
                strangers.pop(oldest).cancel()
                oldest.transport.abort()
            # a stranger that says nothing goes by itself
            strangers[self] = self.loop.call_later(STRANGER_SECONDS, transport.abort)

        def _is_admitted(self) -> bool:
            """Count this connection as a viewer's, unless there are too many."""
            waiting = strangers.pop(self, None)
            if waiting is not None:
                waiting.cancel()
            if self not in viewers and len(viewers) >= MOST_VIEWERS:
                return False
            viewers.add(self)
            return True

        def pause_writing(self) -> None:
            super().pause_writing()
            # a viewer that reads nothing holds memory of the server
            self.stalled = self.loop.call_later(_STALL_SECONDS, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._goes_on()

        def connection_lost(self, exc: Exception | None) -> None:
            self._goes_on()
            waiting = strangers.pop(self, None)
            if waiting is not None:
                waiting.cancel()
            viewers.discard(self)
            super().connection_lost(exc)

        def _goes_on(self) -> None:
            if self.stalled is not None:
                self.stalled.cancel()

    return Few


def _holds(query: bytes, token: str) -> bool:
    """Tell if the query of a request has the token."""
    given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
    # in constant time: the token must not be guessed letter by letter
    return secrets.compare_digest(given.encode(), token.encode())


class _Feed:
    """Feed that makes a state for all viewers, while there are any, and gives each the newest when it can take one."""

    def __init__(self, source: Source, about: Mapping[str, Any]) -> None:
        self._about = about
        self.end: Mapping[str, str] = {}
        self.lines = _Lines()
        self._source = source
        self._began = time.time()
        self._viewers = self._hidden = 0
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._news = asyncio.Condition()
        self._number, self._text = 0, ""
        self._is_over = False
        self._making: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Make the last state at once; called by another thread."""
        self._closing = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(self._wake.set)

    async def states(self, is_hidden: bool) -> AsyncIterator[str]:
        """The states for one viewer, as server-sent events. One is hidden that is a tab behind others: its title tells how far
        the job is.
        """
        self._loop = asyncio.get_running_loop()
        looked_at = self._viewers > self._hidden
        self._viewers += 1
        self._hidden += is_hidden
        try:
            seen = 0
            if self._making is None or self._making.done():
                seen = self._number  # which is old
                self._making = asyncio.create_task(self._make())
            elif not (looked_at or is_hidden):
                self._wake.set()  # no viewer that looks has waited for the next one
            while True:
                async with self._news:
                    while self._number <= seen:
                        await self._news.wait()
                    seen, text, is_last = self._number, self._text, self._is_over
                yield f"data: {text}\n\n"
                if is_last:
                    yield "event: end\ndata: {}\n\n"
                    return
        finally:
            self._viewers -= 1
            self._hidden -= is_hidden

    async def _make(self) -> None:
        """Make one state after the other, until no viewer looks or the job is over."""
        used = time.thread_time()
        while self._viewers and not self._is_over:
            is_last = self._closing
            # in a thread of its own: reading tables must not stop the server
            text, cost = await asyncio.to_thread(self._state)
            async with self._news:
                self._number, self._text, self._is_over = self._number + 1, text, is_last
                self._news.notify_all()
            before, used = used, time.thread_time()  # seconds of this thread for the bytes of all viewers together
            if not is_last:
                rest = _REST * (cost + used - before) if self._viewers > self._hidden else _MOST_SECONDS
                with contextlib.suppress(asyncio.TimeoutError):  # not the built-in one under Python 3.10
                    await asyncio.wait_for(self._wake.wait(), min(_MOST_SECONDS, max(SECONDS, rest)))
                self._wake.clear()

    def _state(self) -> tuple[str, float]:
        """Return the text of the newest state, and the seconds of a core that it took."""
        used = time.thread_time()
        try:
            seen = self._source.look()
            content = {
                **_told(seen, self._began, bool(self.end), self._about),
                "log": [*self.lines.kept] or [*seen.log],
                **self.end,
            }
        # the page stays alive, and tells why it has nothing
        except Exception as error:  # noqa: BLE001  files and agents may say anything, and viewers wait for something
            content = {"problem": f"{type(error).__name__}: {error}"}
        return embedded(content), time.thread_time() - used


def _told(seen: Seen, opened: float, just_ended: bool, about: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    records = seen.records
    state = records.outcome.get("state", "waiting" if seen.agents and not seen.job else "running")
    passed = time.time() - (opened if seen.began is None else seen.began) if state == "running" or just_ended else None
    ended = records.outcome.get("ended")
    if isinstance(ended, float) and seen.began is not None:
        passed = ended - seen.began
    return {
        "title": seen.title or about.get("title", ""),
        "job": seen.job,
        "state": state,
        "message": _story(records),
        "note": _note(records),
        "done": seen.done,
        "passed": passed,
        "left": passed * (1 - seen.done) / seen.done if seen.done and passed else None,
        "tables": _listed(seen),
        "page": page_data(records, _SHOWN),
        "about": dict(about),
    }


def _listed(seen: Seen) -> dict[str, Any]:
    """Return the rows of the tables of the cluster: of a job that has agents of one machine for itself, only its nodes."""
    busy = {row.get("agent") for row in seen.nodes}
    own = bool(seen.job) and all(row.get("agent") in busy and not row.get("problem") for row in seen.agents)
    # a cluster of one machine with this job alone: tables of agents would say the same thing
    own = own and len({row.get("host") for row in seen.agents}) <= 1 and all(row.get("job") == seen.job for row in seen.jobs)
    return {"agents": [] if own else seen.agents, "jobs": [] if own else seen.jobs, "nodes": seen.nodes}


def _story(records: RunRecords) -> str:
    """Return the story of a run that has not ended well, else ""."""
    if not records.outcome.get("message"):
        return ""
    from .story import lines  # noqa: PLC0415 - most runs end well

    return lines(records)


def _note(records: RunRecords) -> str:
    """Return the note on simulated times, and on how many of the workers have tables; "" of a run that is measured."""
    if not (platform := platform_of(records)):
        return ""
    kept, of = sum(node >= 0 and "TR" in own for node, own in records.tables.items()), records.settings.get("workers", "")
    some = f" The curves here are those of {kept} of {of} workers." if of.isdecimal() and 0 < kept < int(of) else ""
    return f"Simulated, not measured, on {platform}: seconds of a virtual clock.{some}"


def _html() -> str:
    head = (
        '<h1><span id="title">A run</span> <span class="state" id="state">loading</span></h1><p id="told">Its state comes.</p>'
        '<p id="note" hidden></p><p class="story" id="message" hidden></p>'
        '<progress id="done" max="1" value="0" aria-label="How much of the job is done"></progress>'
        "<noscript><p>This page is drawn by a script, which this browser does not run. The page of a run that has ended, "
        "report.html in its folder, shows its tables without one.</p></noscript>"
    )
    waits = chart("waits", "Who waited for whom", "Seconds that a worker (row) waited for another one (column).", "")
    causes = chart("causes", "What slows the run down", "Seconds by which these batches would have been shorter without.", "")
    phases = chart(
        "phases",
        "What each worker did",
        "Seconds of its time. Names of colours tell what they mean when you point at them.",
        "",
    )
    batches = chart("batches", "The last batches", "A row for each worker, a box for each batch.", "")
    listed = "".join(
        f'<section id="{name}" hidden><h2>{title}</h2><div class="scroll listed"><table aria-label="{title}"></table></div>'
        "</section>"
        for name, title in (("nodes", "Nodes of the job"), ("agents", "Agents"), ("jobs", "Jobs of the cluster"))
    )
    sections = (
        '<section id="curves" hidden><h2>Curves</h2><div class="pair" id="curve-box"></div></section>'
        f'<section id="now" hidden><h2>Now</h2>{batches}</section>'
        '<section id="time" hidden><h2>Where the time goes</h2><p class="note" id="recent"></p>'
        f'<div class="pair">{causes}{waits}</div>{phases}</section>'
        '<section id="settings" hidden><h2>Settings that differ from the defaults</h2><div class="scroll pairs">'
        '<table aria-label="Settings that differ from the defaults"></table></div></section>'
        '<section id="about" hidden><h2>Model</h2><pre id="model" tabindex="0"></pre></section>'
        f'{listed}<section id="said" hidden><h2>Log</h2><pre id="log" class="log" tabindex="0"></pre></section>'
    )
    return document("A run", head, sections, "null", _POLICY, script("live.js"))


class _Lines(logging.Handler):
    """Handler that keeps the last lines of the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.kept: deque[str] = deque(maxlen=_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        # as on a short console: of the whole story, and of progress, failures would soon be out of sight
        if hasattr(record, "detail") or not (record.levelno >= logging.WARNING or hasattr(record, "headline")):
            return
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        # without the token: a picture of the page may be passed on while it is served
        text = record.getMessage().partition(_BEHIND)[0]
        self.kept.append(f"{stamp} {record.levelname} {clean_text(text, 2000)}")

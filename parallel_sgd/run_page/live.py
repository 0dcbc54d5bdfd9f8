"""The page of a run while it goes on: read-only, on this machine alone, for whoever has its address with the token in it.

The page asks for nothing that training would have to do: it reads the tables that local workers write anyway, at most once in
`SECONDS` for all viewers together, and only while there are any. Workers on other machines send theirs at the end; until then
there is what the log tells. A viewer that reads slowly gets fewer states, and keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from rpc.logs import SUBMIT_LOGGER, clean, get_logger

from .data import page_data
from .records import RunRecords
from .report import chart, document, embedded, script

# Starlette's, which is an optional extra
Request: TypeAlias = Any
Response: TypeAlias = Any
Application: TypeAlias = Any
HERE: Final = "127.0.0.1"
SECONDS: Final = 1.5
_TICK: Final = 0.1
_LOG_LINES: Final = 80
_SHOWN: Final = 40  # batches of each worker
_CLOSE_SECONDS: Final = 3.0
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"
_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


class LivePage:
    """Serves the page of the run in `folder()`, as long as the context lasts; None there: it has not begun.

    `epochs` of the job tell how much is left. Attribute: `address`, with the token.

    Raises: OSError when the port is in use, ImportError without the extra `page`.
    """

    def __init__(self, folder: Callable[[], Path | None], epochs: int = 0, port: int = 0) -> None:
        try:
            import uvicorn  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ImportError("The live page needs Starlette and uvicorn: pip install parallel-sgd[page]") from error
        self._folder, self._epochs = folder, epochs
        self._token = secrets.token_urlsafe(18)
        self._began = time.time()
        self._state: tuple[float, str] = (0.0, "")
        self._lines = _Lines()
        self._closing = False
        self._making = asyncio.Lock()
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HERE, port))
            self._socket.listen(128)  # from now on who comes waits until the thread is there
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{HERE}:{self.port}/?token={self._token}"
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}
        config = uvicorn.Config(self._application(), lifespan="off", timeout_graceful_shutdown=1, **quiet)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="live page", daemon=True)

    def __enter__(self) -> LivePage:
        get_logger(SUBMIT_LOGGER).addHandler(self._lines)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Viewers get the last state, and keep what they see."""
        get_logger(SUBMIT_LOGGER).removeHandler(self._lines)
        self._closing = True
        self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)
        self._socket.close()

    def _application(self) -> Application:
        from starlette.applications import Starlette  # noqa: PLC0415 - an optional extra
        from starlette.middleware import Middleware  # noqa: PLC0415
        from starlette.middleware.trustedhost import TrustedHostMiddleware  # noqa: PLC0415
        from starlette.routing import Route  # noqa: PLC0415

        routes = [Route("/", self._page, methods=["GET"]), Route("/events", self._events, methods=["GET"])]
        # a name that somebody else's server gives for this machine is no way round the token
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HERE, "localhost"], www_redirect=False)
        return Starlette(routes=routes, middleware=[hosts])

    def _refused(self, request: Request) -> Response | None:
        from starlette.responses import PlainTextResponse  # noqa: PLC0415 - an optional extra

        given = request.query_params.get("token", "")
        if secrets.compare_digest(given.encode(), self._token.encode()):
            return None
        return PlainTextResponse("This page needs the token: open the whole address that the job has printed.\n", 403, _HEADERS)

    async def _page(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse  # noqa: PLC0415 - an optional extra

        return self._refused(request) or HTMLResponse(self._html(), headers=_HEADERS)

    async def _events(self, request: Request) -> Response:
        from starlette.responses import StreamingResponse  # noqa: PLC0415 - an optional extra

        return self._refused(request) or StreamingResponse(self._stream(), media_type="text/event-stream", headers=_HEADERS)

    async def _stream(self) -> AsyncIterator[str]:
        told = ""
        while True:
            is_last = self._closing
            text = await self._latest(is_last)
            yield f"data: {text}\n\n" if text != told else ": nothing new\n\n"
            told = text
            if is_last:
                yield "event: end\ndata: {}\n\n"
                return
            for _ in range(round(SECONDS / _TICK)):
                if not self._closing:
                    await asyncio.sleep(_TICK)

    async def _latest(self, is_last: bool) -> str:
        """The newest state, which is made once for all who ask in the same moment."""
        async with self._making:
            if is_last or time.monotonic() - self._state[0] >= SECONDS:
                self._state = (time.monotonic(), await asyncio.to_thread(self._made))
            return self._state[1]

    def _made(self) -> str:
        folder = self._folder()
        records = RunRecords(Path(), None) if folder is None else RunRecords.read(folder)
        done = _done(records, self._epochs)
        passed = time.time() - (records.run.began / 1e9 if records.run else self._began)
        left = passed * (1 - done) / done if done and self._epochs else None
        return embedded(
            {
                "title": records.run.title if records.run else "",
                "job": records.run.job if records.run else "",
                "state": records.outcome.get("state", "running"),
                "done": done,
                "passed": passed,
                "left": left,
                "log": list(self._lines.kept),
                "page": page_data(records, _SHOWN),
            }
        )

    def _html(self) -> str:
        head = (
            '<h1><span id="title">A run</span> <span class="state running" id="state">running</span></h1><p id="told">'
            'It has not begun.</p><progress id="done" max="1" value="0" aria-label="How much of the job is done"></progress>'
        )
        waits = chart("waits", "Who waited for whom", "Seconds that a worker (row) waited for a node (column).", "")
        causes = chart("causes", "What slows the run down", "Seconds by which it would have been shorter so far.", "")
        phases = chart("phases", "What each worker did", "Seconds by phase.", "")
        batches = chart("batches", "The last batches", "A row for each worker, a box for each batch.", "")
        sections = (
            '<section id="curves"><h2>Curves</h2><div class="pair" id="curve-box"></div></section>'
            f"<section><h2>Now</h2>{batches}</section>"
            f'<section><h2>Where the time goes</h2><div class="pair">{causes}{waits}</div>{phases}</section>'
            '<section><h2>Log</h2><pre id="log"></pre></section>'
        )
        return document("A run", head, sections, "null", _POLICY, script("live.js"))


class _Lines(logging.Handler):
    """Keeps the last lines of the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.kept: deque[str] = deque(maxlen=_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        self.kept.append(f"{stamp} {record.levelname} {clean(record.getMessage(), 2000)}")


def _done(records: RunRecords, epochs: int) -> float:
    """How much of the job is done, by what the slowest worker has written: 0 to 1."""
    shares = []
    for tables in records.tables.values():
        steps = tables.get("TR", {})
        if epochs and steps.get("Total"):
            total, each = steps["Total"][-1], steps["in"][-1]
            if isinstance(total, float) and isinstance(each, float) and each > 0:
                shares.append(min(1.0, total / (each * epochs)))
    return min(shares, default=0.0)

"""A loopback proxy for what signals cannot do: slow, lossy, half-open and broken connections between real processes.

    with Proxy(seed=1) as proxy:
        route = proxy.route(address_of_the_agent)      # callers use route.address in its place
        route.there.throttle(1_000_000)                # bytes per second towards the agent
        route.back.swallow()                           # half-open: the caller hears nothing more
        route.cut(seconds=2.0)                         # connections are reset, new ones refused for two seconds

One thread moves all bytes; it ends with the block, and so do all connections.
"""

from __future__ import annotations

import contextlib
import errno
import random
import select
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType

from network.bell import Bell
from network.clock import Clock, SystemClock
from network.hello import Hello
from network.nodes import Address
from network.sockets import wait_sockets

from .messages import Place
from .passage import Passage
from .route import Route

LOOPBACK = "127.0.0.1"


class Proxy:
    """Connections with faults. `seed` is that of jitter and losses; what the same bytes meet is the same for equal seeds.

    Callers come to `host`, an address of this machine.
    """

    def __init__(self, seed: int = 0, clock: Clock | None = None, host: str = LOOPBACK) -> None:
        self._host = host
        self._random = random.Random(seed)  # noqa: S311  faults need repetition, not secrecy
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._routes: list[Route] = []
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._ending = False
        self._bell = Bell()
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)

    def route(self, target: Address, *, frames: bool = False, selects: Callable[[Hello], bool] | None = None) -> Route:
        """A way to `target` through a new port of this machine.

        `frames`: find the messages of Parallel-SGD connections, for faults that handle them whole. `selects(hello)`: which
        connections the faults shall meet, by what their client says first; the others pass undisturbed.
        """

        def admit(near: socket.socket) -> Passage | None:
            far = socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET, socket.SOCK_STREAM)
            far.setblocking(False)
            if far.connect_ex(target) not in (0, errno.EINPROGRESS):
                far.close()
                return None
            places = (Place.HELLO, Place.REPLY) if frames else None
            return Passage(near, far, route.there, route.back, self._random, places, selects=selects, connecting=True)

        route = Route(self, self._host, frames, admit)
        with self.changing():
            self._routes.append(route)
        return route

    def interpose(self, sock: socket.socket, *, frames: bool = False, sealed: bool = False) -> tuple[socket.socket, Route]:
        """Put faults between this process and the peer of `sock`, which the proxy owns from now on.

        Returns the socket to use in its place, and the route. The connection is past its handshake; `sealed` says whether its
        frames carry seals, which matters for `frames`.
        """
        ours, near = socket.socketpair()
        route = Route(self, None, frames, None)
        places = (Place.FRAMES, Place.FRAMES) if frames else None
        with self.changing():
            route.passages.append(Passage(near, sock, route.there, route.back, self._random, places, sealed))
            self._routes.append(route)
        return ours, route

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` in the proxy's thread when `seconds` have passed, unless the proxy ends before."""
        with self.changing():
            self._timers.append((self._clock.monotonic() + seconds, action))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep the proxy's thread from moving bytes in the block, and let it look at everything again after it."""
        with self._lock:
            yield
        self._bell.ring()

    def move(self) -> None:
        """Move all bytes that can be moved now; to be called within `changing`."""
        while True:
            poll = select.poll()
            for sock in self._step()[0]:
                poll.register(sock, select.POLLIN)
            if not poll.poll(0):
                return

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._ending:
                    return
                reading, writing, limit = self._step()
            wait_sockets([*reading, self._bell.sock], writing, limit)
            self._bell.silence()

    def _step(self) -> tuple[list[socket.socket], list[socket.socket], float | None]:
        """Move all bytes that can be moved; what to wait for, and how long."""
        now = self._clock.monotonic()
        for timer in [timer for timer in self._timers if timer[0] <= now]:
            self._timers.remove(timer)
            timer[1]()
        reading: list[socket.socket] = []
        writing: list[socket.socket] = []
        moments = [moment for moment, _ in self._timers]
        for route in self._routes:
            route.step(now)
            reading += route.listening
            for passage in route.passages:
                reading += passage.reading
                writing += passage.writing
                moment = passage.next_moment()
                moments += [] if moment is None else [moment]
        return reading, writing, max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending = True
        with self.changing():
            pass
        self._thread.join()
        for route in self._routes:
            route.close()
        self._bell.close()

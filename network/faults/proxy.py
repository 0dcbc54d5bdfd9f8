"""Loopback proxy for faults that signals cannot make: slow, lossy, half-open and broken connections between real processes.

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
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType

from network.clock import Clock, SystemClock
from network.hello import Hello
from network.nodes import Address
from network.records import Sealer
from network.transport import Waker, wait_sockets

from .connection import ProxiedConnection
from .fault import LinkFault
from .stream import Place, Shape

LOOPBACK = "127.0.0.1"


class Proxy:
    """Connections with faults. Equal bytes meet equal faults for equal seeds.

    Args:
        seed: of jitter and losses.
        clock: of delays and rates; default: the system's.
        host: address of this machine to which callers come.
    """

    def __init__(self, seed: int = 0, clock: Clock | None = None, host: str = LOOPBACK) -> None:
        self._host = host
        self._random = random.Random(seed)  # noqa: S311  faults need repetition, not secrecy
        self._clock = clock or SystemClock()
        # reentrant: `cut` refuses within its own change
        self._lock = threading.RLock()
        self._routes: list[Route] = []
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._ending = False
        self._waker = Waker()
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)

    def route(self, target: Address, *, frames: bool = False, selects: Callable[[Hello], bool] | None = None) -> Route:
        """Open a way to `target` through a new port of this machine.

        Args:
            target: address that callers want to reach.
            frames: find the messages of Parallel-SGD connections, for faults that handle them whole.
            selects: tells by the client's HELLO whether the faults meet its connection; the others pass undisturbed.
        """

        def admit(near: socket.socket) -> ProxiedConnection | None:
            far = socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET, socket.SOCK_STREAM)
            far.setblocking(False)
            # never waits: one thread moves the bytes of all connections
            if far.connect_ex(target) not in (0, errno.EINPROGRESS):
                far.close()
                return None
            places = (Place.HELLO, Place.REPLY) if frames else None
            return ProxiedConnection(
                near, far, (route.there, route.back), self._random, places, selects=selects, connecting=True
            )

        route = Route(self, self._host, frames, admit)
        with self.changing():
            self._routes.append(route)
        return route

    def interpose(
        self, sock: socket.socket, *, frames: bool = False, sealed: bool = False, sealer: Sealer | None = None
    ) -> tuple[socket.socket, Route]:
        """Put faults between this process and the peer of `sock`, which the proxy owns from now on.

        The connection is past its handshake. Messages that are lost, repeated or swapped before `sealer` has made records of
        them (`Session.let_seal`) are to the peer as their sender might have sent them; of records it would take that for an
        attack.

        Args:
            sock: the connection.
            frames: find its messages, for faults that handle them whole.
            sealed: whether its frames are records, which matters for `frames`.
            sealer: seals the frames behind the faults.

        Returns: the socket to use in its place, and the route.
        """
        # the session goes on with our end, and does not notice
        ours, near = socket.socketpair()
        route = Route(self, None, frames, None)
        places = (Place.FRAMES, Place.FRAMES) if frames else None
        with self.changing():
            connection = ProxiedConnection(near, sock, (route.there, route.back), self._random, places, sealed)
            if sealer is not None:
                connection.seal(sealer)
            route.connections.append(connection)
            self._routes.append(route)
        return ours, route

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call a function in the proxy's thread after a time, unless the proxy ends before.

        Args:
            seconds: the time until then.
            action: the function.
        """
        # wakes the thread, which may wait for something later than this
        with self.changing():
            self._timers.append((self._clock.monotonic() + seconds, action))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep the proxy's thread from moving bytes in the block, and let it look at everything again after it."""
        with self._lock:
            yield
        self._waker.wake()

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
                # moved under the lock, waited for outside: to change a fault never takes as long as the network
                reading, writing, limit = self._step()
            wait_sockets([*reading, self._waker.sock], writing, limit)
            self._waker.clear()

    def _step(self) -> tuple[list[socket.socket], list[socket.socket], float | None]:
        """Move all bytes that can be moved; return the sockets to wait for, and how long."""
        now = self._clock.monotonic()
        for timer in [timer for timer in self._timers if timer[0] <= now]:
            # before the call, which may add timers
            self._timers.remove(timer)
            timer[1]()
        reading: list[socket.socket] = []
        writing: list[socket.socket] = []
        moments = [moment for moment, _ in self._timers]
        for route in self._routes:
            route.step(now)
            reading += route.listening
            for connection in route.connections:
                reading += connection.reading
                writing += connection.writing
                moment = connection.next_moment()
                moments += [] if moment is None else [moment]
        return reading, writing, max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending = True
        with self.changing():  # at its end it wakes the thread, which sees that it is to end
            pass
        # before the sockets close under it
        self._thread.join()
        for route in self._routes:
            route.close()
        self._waker.close()


Admit = Callable[[socket.socket], ProxiedConnection | None]


class Route:
    """Way through a proxy, made by `Proxy.route` and `Proxy.interpose`.

    Attributes: `address` that callers use (None when interposed), `there` and `back` (the `Shape` of the bytes that callers
    send, and of those that they receive), `connections` (the open connections).

    Args:
        proxy: the proxy that moves its bytes.
        host: address of this machine to listen on, None when interposed.
        frames: whether its messages are found.
        admit: opens the connection of a caller, None when interposed.
    """

    def __init__(self, proxy: Proxy, host: str | None, frames: bool, admit: Admit | None) -> None:
        self._proxy = proxy
        self._frames = frames
        self._admit = admit
        self._own: Counter[str] = Counter()
        self.there = Shape(proxy.changing)
        self.back = Shape(proxy.changing)
        self.connections: list[ProxiedConnection] = []
        self.address: Address | None = None
        self._holder: socket.socket | None = None
        self._listener: socket.socket | None = None
        if host is not None:
            self._holder = _bound(host, 0)  # keeps the port while the listener is closed, so that it refuses callers
            self.address = Address(host, self._holder.getsockname()[1])
            self._listen()

    @property
    def counts(self) -> Counter[str]:
        """Count of each kind of fault that has acted, over both directions and the connections."""
        return self._own + self.there.counts + self.back.counts

    def reset(self) -> None:
        """Reset all connections; new ones are let in."""
        with self._proxy.changing():
            self._own["reset"] += 1
            for connection in self.connections:
                connection.reset()

    def refuse(self, on: bool = True) -> None:
        """Refuse connections, as a host does on which nothing listens; those that are open live on. `on` False lets them in
        again.
        """
        with self._proxy.changing():
            if on and self._listener is not None:
                self._own["refuse"] += 1
                with contextlib.suppress(OSError):  # the proxy's thread may wait for it, which would keep it open for a moment
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                self._listener = None
            elif not on and self._listener is None and self._holder is not None:
                self._listen()

    def cut(self, seconds: float | None = None) -> None:
        """Reset all connections and refuse new ones, until `heal` or for `seconds`."""
        with self._proxy.changing():
            self._own["cut"] += 1
            # first, so that no caller whose connection is reset comes back in
            self.refuse()
            for connection in self.connections:
                connection.reset()
        if seconds is not None:
            self._proxy.after(seconds, self.heal)

    def heal(self) -> None:
        """Let connections in again."""
        self.refuse(on=False)

    def inject(self, fault: LinkFault) -> None:
        """Let a fault of a plan begin in direction `there`, and end after its seconds.

        A link that is swallowed for a time is stalled instead, and delivers afterwards, as TCP does after a partition.
        Raises: ValueError for a fault that needs to know frames where they are not.
        """
        # bytes without frames cannot be lost in whole messages, and half of one would be a broken stream
        if fault.kind in ("lose", "duplicate", "reorder") and not self._frames:
            raise ValueError(f"The fault {str(fault)!r} needs a route that knows frames: pass frames=True.")
        begin, end = (self.cut, self.heal) if fault.kind == "cut" else self.there.effect(fault)
        with self._proxy.changing():
            self._proxy.move()  # bytes sent before this, though the proxy's thread may not have come to them yet
            begin()
        if fault.seconds is not None:
            self._proxy.after(fault.seconds, end)

    @property
    def listening(self) -> list[socket.socket]:
        return [] if self._listener is None else [self._listener]

    def step(self, now: float) -> None:
        """Let callers in, and move the bytes of all connections; `now` is the time in monotonic seconds."""
        # before the connections move, so that a new one moves at once
        for near in self._callers():
            connection = self._admit(near) if self._admit is not None else None
            if connection is None:
                near.close()
            else:
                self.connections.append(connection)
        for connection in self.connections:
            if not connection.closed:
                connection.step(now)
        self.connections[:] = [connection for connection in self.connections if not connection.closed]

    def _callers(self) -> Iterator[socket.socket]:
        while self._listener is not None:
            try:
                yield self._listener.accept()[0]
            # no caller is left, or it has gone between its arrival and now
            except (BlockingIOError, ConnectionAbortedError):
                return

    def _listen(self) -> None:
        if self.address is not None:
            self._listener = _bound(*self.address)
            self._listener.listen(128)
            self._listener.setblocking(False)

    def close(self) -> None:
        """End all connections and give the port back."""
        for connection in self.connections:
            connection.reset()
        for sock in (self._listener, self._holder):
            with contextlib.suppress(OSError):
                if sock is not None:
                    sock.close()


def _bound(host: str, port: int) -> socket.socket:
    """Make a socket at a port that another one of ours may hold: it stays ours, and refuses, while none of them listens."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # connections of before linger in TIME_WAIT and would keep the port
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    return sock

"""Socket pair between an agent and a job process: small operations, and descriptors of connections with them."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import sys
from collections.abc import Iterable

import msgpack

from network.errors import ProtocolError
from network.values import decode, encode
from network.wire import unpack

from .messages import Operation, parse
from .protocol import OPERATION_BYTES

MAX_PACKET = 1 << 17
_TYPE = socket.SOCK_SEQPACKET if sys.platform.startswith("linux") else socket.SOCK_DGRAM
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # recv_fds would leave descriptors inheritable for a moment


def make_channel() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, _TYPE)


class ProcessChannel:
    """End of the socket pair of agent and job process; it never blocks. Operations are refused unless they are of `accepts`."""

    def __init__(self, sock: socket.socket, accepts: Iterable[type[Operation]]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._accepts = tuple(accepts)
        # room for some packets of the largest size, which a burst of callers may bring
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, MAX_PACKET * 4)

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, operation: Operation, descriptor: int | None = None) -> None:
        """Send one operation, with a descriptor if given.

        Raises: OSError when the other end is gone, BlockingIOError when it does not read.
        """
        tree, _ = encode(operation.to_value())
        # one packet for each operation: the kernel keeps their bounds
        packet = msgpack.packb(tree)
        if descriptor is None:
            self.sock.send(packet)
        else:
            socket.send_fds(self.sock, [packet], [descriptor])

    def receive(self) -> tuple[Operation, socket.socket | None] | None:
        """Return the next operation and the connection that came with it; None when the other end is gone.

        Raises: ProtocolError for anything unexpected, BlockingIOError when there is nothing.
        """
        try:
            # room for four descriptors: more than one is a fault that must be seen, not cut off
            packet, ancillary, _, _ = self.sock.recvmsg(MAX_PACKET, socket.CMSG_SPACE(4 * 4), _CLOEXEC)
        except ConnectionResetError:  # it left operations of ours unread; its own come after this error
            packet, ancillary, _, _ = self.sock.recvmsg(MAX_PACKET, socket.CMSG_SPACE(4 * 4), _CLOEXEC)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if not packet:
            return None
        try:
            if len(descriptors) > 1:
                raise ProtocolError("More than one connection came with a message.")
            operation = parse(decode(unpack(packet, OPERATION_BYTES), []), self._accepts)
        except ProtocolError:
            # they are ours since they came; nothing else would close them
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return operation, socket.socket(fileno=descriptors[0]) if descriptors else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()

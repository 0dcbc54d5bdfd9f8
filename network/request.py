"""Connections of the submitter to every node of an assignment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from .clock import Clock, SystemClock
from .controller import Controller
from .dial import CONNECT_SECONDS, Target, advised, dial_all
from .errors import NetworkError, TimedOut
from .key_files import KeySource, find_keys_for, key_file_of, key_origin
from .keys import Key
from .loopback import refuse_misplaced
from .nodes import SUBMITTER, Address, NodeAssignment
from .session import Session

OWN_SECONDS = 60.0  # for an agent that this program has started, and that runs: where cores are few, it may get none for long


class Request:
    """Opener of authenticated connections to agents.

    A key file that has changed is read again before the next call, so that a program outlives a change of the key: what it has
    begun goes on with connections of before, and later ones are opened with the key that counts then.

    Attributes: `key`, below; another one serves from the next call on.

    Args:
        key_file: the cluster key; default: the assignment's own, `PSGD_KEY_FILE`, or the user's configuration directory.
        key: the key itself, where there is no file.

    >>> with Request().request(nodes) as com:  # doctest: +SKIP
    ...     print(com.available_clients)
    """

    def __init__(self, key_file: str | Path | None = None, *, key: Key | None = None) -> None:
        self._key_file, self.key = key_file, key
        self._sources: dict[Path | None, KeySource] = {}

    def request(self, nodes: NodeAssignment, limit: float = CONNECT_SECONDS) -> Controller:
        """Connect to all nodes at once.

        Args:
            nodes: the nodes.
            limit: seconds for all of them.

        Raises: NetworkError naming every address that failed and why; nothing stays open then. KeyFileError. ValueError for a
        loopback address beside a node on another machine, before anything is sent: that one could not reach it.
        """
        refuse_misplaced((address for _, address in nodes.items()), limit)
        com, errors = self.reach(nodes, limit)
        if errors:
            com.close(graceful=False)
            if len(errors) == 1:
                # itself, not joined with others: its class may say more than NetworkError
                raise next(iter(errors.values()))
            raise NetworkError(" ".join(str(error) for error in errors.values()))
        return com

    def reach(self, nodes: NodeAssignment, limit: float = CONNECT_SECONDS) -> tuple[Controller, dict[int, NetworkError]]:
        """Connect to those nodes that can be reached; the others are returned, each with the reason.

        Args:
            nodes: the nodes.
            limit: seconds for all of them.

        Raises: KeyFileError; ClosedByUs for nodes after their `with` block.
        """
        sessions, errors, key = self.call(nodes, limit)
        return self.connected(nodes, sessions, key), errors

    def call(
        self, nodes: NodeAssignment, limit: float = CONNECT_SECONDS
    ) -> tuple[dict[int, Session], dict[int, NetworkError], Key]:
        """Connect as `reach` does, for a caller that moves the bytes of the sessions by itself.

        Args:
            nodes: the assignment.
            limit: seconds for all of them.

        An agent that this program has started, and that runs, is called again for up to `OWN_SECONDS` in all, or `limit`.

        Returns: sessions, errors, and the key with which they were opened.

        Raises: KeyFileError; ClosedByUs for nodes after their `with` block; ValueError for an assignment without nodes.
        """
        # before a key is looked for: agents that have ended with their block have taken their key file along
        nodes.check_open()
        if not len(nodes):
            raise ValueError("Request needs at least one node, got an empty NodeAssignment.")
        explicit = self._key_file or nodes.key_file
        key = self.key or self._offered(nodes, Path(explicit) if explicit else None)
        targets = {
            # the agent learns in the clear which node is meant, for its log and its refusals
            node_id: Target(address, key, "submitter", "agent", node_id=node_id, caps={"node": node_id})
            for node_id, address in nodes.items()
        }
        sessions, errors = dial_all(targets, limit)
        self._call_again(nodes, targets, sessions, errors, limit)
        origin = None if self.key is not None else key_origin(explicit, os.environ)
        told = {node_id: advised(error, nodes[node_id], explicit, origin) for node_id, error in errors.items()}
        return sessions, told, key

    def _offered(self, nodes: NodeAssignment, explicit: Path | None) -> Key:
        """Return the first key of the file as it is now, or the last one that could be read from it. Raises: KeyFileError."""
        path = key_file_of(explicit, os.environ)
        if path not in self._sources:
            keyring = find_keys_for((nodes[node] for node in nodes), explicit, os.environ)
            # a fault of the file is told where its last key is refused: an agent may take that still
            self._sources[path] = KeySource(keyring, path, lambda _: None)
        return self._sources[path].current().offered

    @staticmethod
    def _call_again(
        nodes: NodeAssignment,
        targets: Mapping[int, Target],
        sessions: dict[int, Session],
        errors: dict[int, NetworkError],
        limit: float,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
    ) -> None:
        """Call agents again that have not answered, as long as their processes are known to run."""
        deadline = clock.monotonic() + OWN_SECONDS - limit
        try:
            # what is lost, refused or rejected has answered, or its process has
            while late := [node for node in errors if isinstance(errors[node], TimedOut) and nodes.lives(nodes[node])]:
                if clock.monotonic() >= deadline:
                    for node in late:
                        errors[node] = TimedOut(
                            f"node {node} at {nodes[node]}, whose process runs, to answer", max(OWN_SECONDS, limit)
                        )
                    return
                opened, failed = dial_all({node: targets[node] for node in late}, limit)
                sessions.update(opened)
                for node in late:
                    del errors[node]
                errors.update(failed)
        except BaseException:  # Ctrl-C, too: no owner knows these sessions yet
            for session in sessions.values():
                session.close()
            raise

    def connected(self, nodes: NodeAssignment, sessions: Mapping[int, Session], key: Key) -> Controller:
        """Make a controller of the sessions that `call` has opened.

        Args:
            nodes: the nodes that were called.
            sessions: the sessions, by node.
            key: the key that they have proven.
        """
        com = Controller(SUBMITTER, sessions)
        com.addresses, com.key, com.lives = dict(nodes.items()), key, nodes.lives
        com.again = partial(self._again, nodes.key_file, nodes.lives)
        return com

    def _again(
        self, key_file: str | Path | None, lives: Callable[[Address], bool], addresses: Mapping[int, Address]
    ) -> Controller:
        """Connect anew to some nodes of an assignment, by the key that counts now.

        Args:
            key_file: that of the assignment.
            lives: that of the assignment.
            addresses: the nodes, with their addresses.

        Raises: as `request`.
        """
        wanted = NodeAssignment(key_file)
        wanted.lives = lives
        for node, address in addresses.items():
            wanted.add(node, address)
        return self.request(wanted)

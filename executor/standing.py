"""What every process of an executor must be told first: those that are started later as well."""

from __future__ import annotations

from typing import Any

# words of messages (see `messages`), and whether there are many of them, by number
_STANDS = {"room": False, "listen": False, "initializer": False, "hold": True}
_ENDS = {"drop": "hold"}


class StandingOrders:
    """Messages to all nodes that stay in force."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, Any], list[Any]] = {}

    def note(self, message: list[Any]) -> None:
        """All nodes are told this; what stays in force is kept, and what ends is dropped."""
        word = message[0]
        if word in _STANDS:
            self._messages[word, message[1] if _STANDS[word] else None] = message
        elif word in _ENDS:
            for number in message[1]:
                self._messages.pop((_ENDS[word], number), None)

    def has(self, word: str) -> bool:
        """Whether something of this kind, of which there is one, is in force."""
        return (word, None) in self._messages

    def all(self) -> list[list[Any]]:
        """In the order in which they were given."""
        return list(self._messages.values())

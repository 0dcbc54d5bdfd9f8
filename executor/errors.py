"""What can go wrong with a task beyond its own exceptions."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor


class RemoteError(Exception):
    """A task raised an exception whose class this process does not have, or cannot make: its name and message.

    Attributes: `type_name`, module and name of the class.
    """

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class RemoteTraceback(Exception):
    """The `__cause__` of an exception that a task raised: on which node, and the traceback there as text."""

    def __init__(self, node: int, text: str) -> None:
        super().__init__(node, text)
        self.node, self.text = node, text

    def __str__(self) -> str:
        return f'on node {self.node}\n"""\n{self.text.rstrip()}\n"""'


class NotData(TypeError):
    """A task returned what is no data, so that it cannot come back."""


class NodeLost(BrokenExecutor):
    """A node was lost while it held the task, or every node is lost. Attribute: `node`, None when no node is left."""

    def __init__(self, message: str, node: int | None = None) -> None:
        super().__init__(message)
        self.node = node


def like(reason: BrokenExecutor) -> BrokenExecutor:
    """Another one that says the same: one that is raised in several places would gather the tracebacks of all."""
    made = type(reason)(str(reason))
    made.__cause__ = reason.__cause__
    return made

"""The disk of a job process of a simulation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from parallel_sgd.checkpoint.store import Disk

if TYPE_CHECKING:
    from .life import Life


class SimDisk(Disk):
    """A disk that a dead process does not touch any more; one that dies while it writes leaves half a file."""

    def __init__(self, life: Life, owner: str) -> None:
        self._life, self._owner = life, owner
        self._process = life.actors[owner]

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self._life.note("checkpoint-write", self._owner)
        content = b"".join(bytes(piece) for piece in pieces)
        if self._gone and not self._process.dead:
            path.write_bytes(content[: len(content) // 2])
        self._check()
        path.write_bytes(content)

    def replace(self, source: Path, target: Path) -> None:
        self._check()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        self._check()
        super().remove(path)

    def make_folder(self, path: Path) -> None:
        self._check()
        super().make_folder(path)

    def sync_folder(self, folder: Path) -> None:
        self._check()

    @property
    def _gone(self) -> bool:
        return bool(self._process.dead) or self._life.is_struck(self._owner)

    def _check(self) -> None:
        if self._gone:
            raise OSError(5, "the process is dead")

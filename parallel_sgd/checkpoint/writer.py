"""Saving beside training: a thread that writes one snapshot after the other, and the memory for their copies."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Final

import numpy as np

from nn.arrays import Array, empty
from rpc.support.logs import DISK_REFUSES, DISK_TAKES, get_logger

from ..engine.progress import Position
from .snapshot import Snapshot
from .state import ModelFile
from .store import Store

SAVE_SECONDS: Final = 50.0
"""How long the end of training waits for the disk: less than a node may be silent."""

PATIENCE_SECONDS: Final = 2.0
"""How long training waits for the disk rather than leave out a checkpoint of which every node must have its own."""

_log = get_logger("parallel_sgd.checkpoint")


class Writer:
    """Writer of snapshots; while one is written the newest waits its turn, and one that waited is dropped for it.

    A write that the disk refuses leads to a warning, and training goes on.

    Args:
        store: takes the files.
        on_done: called with each snapshot, in any thread, when its memory is free again.
        model: the file of the model that is written after each snapshot; None for none.

    Attributes: `saved`, the position of the last snapshot on the disk; `tried`, that of the last one written or refused;
    `failures`, the number of refused ones.
    """

    def __init__(self, store: Store, on_done: Callable[[Snapshot], None], model: ModelFile | None = None) -> None:
        self._store = store
        self._model, self._model_refused = model, False
        self._on_done = on_done
        self._changed = threading.Condition()
        self._next: Snapshot | None = None
        self._writing = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.saved: Position | None = None
        self.tried: Position | None = None
        self.failures = 0

    def await_turn(self) -> bool:
        """Wait until no snapshot waits any more; return False when that took longer than PATIENCE_SECONDS."""
        with self._changed:
            return self._changed.wait_for(lambda: self._next is None, PATIENCE_SECONDS)

    def withdraw(self) -> None:
        """Drop the snapshot that waits, if any: a newer one is about to come."""
        with self._changed:
            dropped, self._next = self._next, None
        if dropped is not None:
            # outside of the lock: it belongs to others, and may take one of its own
            self._on_done(dropped)

    def submit(self, snapshot: Snapshot) -> None:
        """Have `snapshot` saved soon.

        Raises: RuntimeError after `close`, and where no thread can be started.
        """
        self.withdraw()
        with self._changed:
            if self._closed:
                raise RuntimeError("The writer of checkpoints is closed")
            if self._thread is None:
                # in the context of the job, which says how much is shown
                thread = threading.Thread(target=copy_context().run, args=(self._run,), name="checkpoint-writer", daemon=True)
                # as a daemon: a disk that hangs must not keep the process from ending
                thread.start()  # may fail: then nothing waits for it
                self._thread = thread
            self._next = snapshot
            self._changed.notify_all()

    def flush(self, seconds: float = SAVE_SECONDS) -> bool:
        """Wait until everything is saved; return False, with a warning, when the disk takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._next is not None or self._writing:
                left = deadline - time.monotonic()
                if left <= 0:
                    _log.warning("The checkpoint in %s is not saved after %g s and is given up.", self._store.folder, seconds)
                    return False
                self._changed.wait(left)
        return True

    def close(self, seconds: float = SAVE_SECONDS) -> None:
        """Save the snapshots that are there, waiting at most `seconds` for the disk, and end the thread; idempotent."""
        done = False
        try:
            done = self.flush(seconds)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
        # a thread that is still in the disk's hands is left behind
        if self._thread is not None and done:
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._next is None and not self._closed:
                    self._changed.wait()
                if self._next is None:
                    return
                snapshot, self._next, self._writing = self._next, None, True
                # those that await their turn go on: the next snapshot may come
                self._changed.notify_all()
            # outside of the lock, so that training may submit the next one meanwhile
            self._save(snapshot)
            self._on_done(snapshot)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _save(self, snapshot: Snapshot) -> None:
        position = snapshot.header.position
        start = time.monotonic()
        try:
            path = self._store.save(snapshot)
        except Exception as error:  # noqa: BLE001  after any error training goes on, and so does this thread
            self.failures += 1
            words = "The checkpoint after %s could not be saved, training goes on: %s."
            _log.warning(words, position, error, extra={DISK_REFUSES: self._store.folder})
        else:
            self.saved = position
            size = sum(array.nbytes for array in snapshot.arrays.values())
            seconds = time.monotonic() - start
            told = "Checkpoint after %s: %s, %s bytes in %.3f s."
            _log.info(told, position, path, size, seconds, extra={DISK_TAKES: self._store.folder})
        # refused ones, too: an epoch must not wait for ever to be told because a disk is full
        self.tried = position
        # after the checkpoint, which is what a restart needs
        if self._model is not None:
            try:
                self._model.save(snapshot)
            except Exception as error:  # noqa: BLE001  here too
                words = "The model after %s could not be saved, training goes on: %s."
                _log.warning(words, position, error, extra={DISK_REFUSES: "the model"})
                self._model_refused = True
            else:
                if self._model_refused:
                    _log.info("The model after %s is written again.", position, extra={DISK_TAKES: "the model"})
                self._model_refused = False


class Copies:
    """Memory for copies of arrays by name; `put_back` (from any thread) tells that one of its results is no longer needed."""

    def __init__(self) -> None:
        self._free: list[dict[str, Array]] = []
        self._preparing: threading.Thread | None = None

    def prepare(self, live: Mapping[str, Array]) -> None:
        """Get memory for copies of arrays like `live`, in a thread, once: the first `take` then finds it."""
        if self._preparing is None:
            kinds = {name: (array.shape, array.dtype) for name, array in live.items()}
            thread = threading.Thread(target=self._touch, args=(kinds,), name="checkpoint-memory", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread may be started: `take` gets the memory itself
                thread.start()
                self._preparing = thread

    def _touch(self, kinds: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        rooms = {name: empty(*kind) for name, kind in kinds.items()}
        for room in rooms.values():
            # touched, so that the system gives the pages now and not while training waits for a copy
            room.fill(0)
        self._free.append(rooms)

    def take(self, live: Mapping[str, Array]) -> dict[str, Array]:
        # `pop` and `append` of a list are atomic, so no lock is needed between training and writer
        rooms = self._free.pop() if self._free else {}
        copies: dict[str, Array] = {}
        for name, array in live.items():
            room = rooms.get(name)
            # sizes change where codecs keep more as training goes on
            if room is None or room.shape != array.shape or room.dtype != array.dtype:
                room = empty(array.shape, array.dtype)
            np.copyto(room, array)
            copies[name] = room
        return copies

    def put_back(self, copies: dict[str, Array]) -> None:
        self._free.append(copies)

    def close(self) -> None:
        if self._preparing is not None:
            self._preparing.join()

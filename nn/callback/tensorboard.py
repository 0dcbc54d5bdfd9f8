"""Callback that writes the results of each epoch for TensorBoard, which draws them in a browser."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from nn import arguments
from nn.callback.callback import Callback


class TensorBoard(Callback, configured=True):
    """Event files with the results of each epoch, for the command `tensorboard --logdir logs`; it needs no other package.

    Training's results go to `train/`, those of validation to `validation/`, with the names that Keras writes: `epoch_loss`,
    `epoch_<metric>` and `epoch_learning_rate`, by the number of the epoch from 0 over the life of the model. Each training
    writes a new file; one that goes on from an earlier epoch has TensorBoard forget what was written after it.

    Args:
        path: the folder, in a job within that of the node; `log_dir` is the name that Keras gives it.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.compile("sgd", "crossentropy_with_softmax")
    >>> board = nn.callback.TensorBoard("logs")
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epochs=2, callbacks=[board], verbose=0)
    >>> [path.parent.name for path in Path("logs").glob("*/events.out.tfevents.*")]
    ['train']
    """

    @arguments.also(log_dir="path")
    def __init__(self, path: str | os.PathLike[str] = "logs") -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise TypeError(f"TensorBoard 'path' must be the path of a folder, got {path!r}")
        self.path = Path(path)
        self._files: dict[str, Path] = {}

    def on_train_begin(self) -> None:
        self._files = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Append the results."""
        # The epoch has been counted already.
        step = self.model.epochs_trained - 1
        results = {name: float(value) for name, value in logs.items()}
        training = {name: value for name, value in results.items() if not name.startswith(_VALIDATION)}
        training["learning_rate"] = self.model.optimizer.rule.learn_rate
        self._write("train", step, training)
        validation = {name.removeprefix(_VALIDATION): results[name] for name in results if name.startswith(_VALIDATION)}
        if validation:
            self._write("validation", step, validation)

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        return str(self.path) if name == "path" else super().argument(name)

    def _write(self, part: str, step: int, values: Mapping[str, float]) -> None:
        records = [] if part in self._files else [_event(0, _text(3, b"brain.Event:2")), _event(step, _text(7, b"\x08\x01"))]
        file = self._files.setdefault(part, self._new(part)) if records else self._files[part]
        summary = b"".join(
            _text(1, _text(1, f"epoch_{'loss' if name == 'Loss' else name}".encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in values.items()
        )
        records.append(_event(step, _text(5, summary)))
        # Opened for each epoch, so that a killed run leaves whole records.
        with open(file, "ab") as opened:
            opened.write(b"".join(map(_record, records)))

    def _new(self, part: str) -> Path:
        """Return the path of a file that is not there yet; TensorBoard reads files in the order of their names."""
        folder = self._job_folder / self.path / part
        folder.mkdir(parents=True, exist_ok=True)
        names = (folder / f"events.out.tfevents.{int(time.time()):010d}.{number:04d}.nn" for number in count())
        return next(path for path in names if not path.exists())


_VALIDATION = "val_"


def _event(step: int, content: bytes) -> bytes:
    """Return an event: the time, the step, and one more field."""
    return b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _whole(step) + content


def _whole(number: int) -> bytes:
    """Return a whole number of at least 0 as protocol buffers write it, seven bits in a byte, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _text(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes: its number, their length, and they."""
    return bytes([field << 3 | 2]) + _whole(len(content)) + content


def _record(content: bytes) -> bytes:
    """Return a record of the file: length, checksum of the length, content, checksum of the content."""
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _masked(content: bytes) -> bytes:
    # The format adds a constant to a rotated checksum, for records that hold checksums themselves.
    found = checksum(content)
    return struct.pack("<I", ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def checksum(content: bytes) -> int:
    """Return the CRC-32C of bytes (Castagnoli, Brauer and Herrmann, 1993)."""
    found = 0xFFFFFFFF
    for byte in content:
        found = _TABLE[(found ^ byte) & 255] ^ found >> 8
    return found ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = tuple(_entry(number) for number in range(256))

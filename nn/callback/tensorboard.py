"""Callback that writes the results of each epoch for TensorBoard, which draws them in a browser."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nn import arguments
from nn.callback.callback import Callback

_VALIDATION = "val_"


class TensorBoard(Callback, configured=True):
    """Event files with the results of each epoch, for the command `tensorboard --logdir logs`.

    Training's results go to `train/`, those of validation to `validation/`, with the names that Keras writes: `epoch_loss`,
    `epoch_<metric>` and `epoch_learning_rate`, by the number of the epoch from 0 over the life of the model. Each training
    writes a new file; one that goes on from an earlier epoch has TensorBoard forget the results that were written after it.
    Event files are written by tensorboardX, the extra `tensorboard`; training raises ImportError where it is missing.

    Args:
        path: the folder, in a job within that of the node; `log_dir` is the name that Keras gives it.

    >>> nn.callback.TensorBoard(log_dir="logs").get_config()
    {'path': 'logs'}
    """

    @arguments.also(log_dir="path")
    def __init__(self, path: str | os.PathLike[str] = "logs") -> None:
        self.path = Path(arguments.new_path(self, "path", path, "a folder"))
        self._events: dict[str, Any] = {}

    def on_train_begin(self) -> None:
        """Raise ImportError, before anything is trained, where tensorboardX is missing."""
        _library()
        self._events = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Write the results."""
        # The epoch has been counted already.
        step = self.model.epochs_trained - 1
        results = {name: float(value) for name, value in logs.items()}
        training = {name: value for name, value in results.items() if not name.startswith(_VALIDATION)}
        training["learning_rate"] = self.model.optimizer.rule.learn_rate
        self._write("train", step, training)
        validation = {name.removeprefix(_VALIDATION): results[name] for name in results if name.startswith(_VALIDATION)}
        if validation:
            self._write("validation", step, validation)

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        """Close the files."""
        for events in self._events.values():
            events.close()
        self._events = {}

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        return str(self.path) if name == "path" else super().argument(name)

    def _write(self, part: str, step: int, values: Mapping[str, float]) -> None:
        events = self._events.get(part)
        if events is None:
            folder = str(self._job_folder / self.path / part)
            # what earlier files say from this step on holds no more; their names tell a second, and are read in order
            events = _library().SummaryWriter(folder, purge_step=step, filename_suffix=f".{step:08d}")
            self._events[part] = events
        for name, value in values.items():
            events.add_scalar(f"epoch_{'loss' if name == 'Loss' else name}", value, step)
        # so that a killed run leaves its epochs
        events.flush()


def _library() -> Any:
    try:
        import tensorboardX  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("TensorBoard needs tensorboardX: pip install tensorboardX") from error
    return tensorboardX

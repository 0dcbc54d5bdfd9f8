"""Event files of TensorBoard."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .interface import Config

__all__ = ["TensorBoardWriter"]


class TensorBoardWriter:
    """Writes what `tensorboard --logdir <directory>` shows: a curve for each figure, and the settings as a text.

    Every run goes into a folder of its own in `directory`, `<name>`, by default the title of the job with the time. Event files
    are written by tensorboardX, the extra `tensorboard`; raises ImportError where it is missing.

    >>> job.parallel(nodes, writers=[TensorBoardWriter("tb")])  # doctest: +SKIP
    """

    def __init__(self, directory: str | os.PathLike[str] = "tensorboard", name: str | None = None) -> None:
        self.directory, self.name = Path(directory), name
        self._events: Any = None
        self._began = 0.0
        _library()

    def start(self, config: Config) -> None:
        self._began = time.time()
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._began))
        name = self.name or f"{config.get('mission_title', 'run')}-{began}-{os.getpid()}"
        self._events = _library().SummaryWriter(str(self.directory / name))
        lines = [f"| {key} | {json.dumps(value)} |" for key, value in config.items()]
        self._events.add_text("settings", "\n".join(["| setting | value |", "| --- | --- |", *lines]), 0)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Each figure at the moment that `time` tells, where it is given."""
        moment = self._began + values["time"] if "time" in values else time.time()
        for name, value in values.items():
            if name != "time":
                kind, own = ("test", name.removeprefix("val_")) if name.startswith("val_") else ("training", name)
                self._events.add_scalar(f"{own}/{kind}" if name != "epoch" else name, value, step, moment)

    def finish(self, status: str) -> None:
        self._events.add_text("status", status, 0)
        self._events.close()


def _library() -> Any:
    try:
        import tensorboardX  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("TensorBoardWriter needs tensorboardX: pip install parallel-sgd[tensorboard]") from error
    return tensorboardX

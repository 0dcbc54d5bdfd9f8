"""Writer of event files of TensorBoard."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..record.history import COUNTS
from .interface import Config

__all__ = ["TensorBoardWriter"]
FOLDER: Final = "tensorboard"
_FLUSH_SECONDS: Final = 2


class TensorBoardWriter:
    """Writer of the files that `tensorboard --logdir <directory>` shows: a curve for each figure, and the settings as a text.

    Every run goes into a folder of its own: of a job the folder `tensorboard` in that of its run, so that `tensorboard --logdir
    runs` shows all runs of a project by their names, or `<name>` in `directory`. Where that is taken the time is added, so that
    no run is drawn over another; a `name` that is given again begins again. Curves are there a few seconds after their batches.
    Event files are written by tensorboardX, the extra `tensorboard`; raises ImportError where it is missing.

    Args:
        directory: folder with a folder for each run; by default the folder of the run itself has it.
        name: name of the folder of the run in `directory`, by default the name of the run.

    >>> job.parallel(nodes, writers=[TensorBoardWriter()])  # doctest: +SKIP
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, name: str | None = None) -> None:
        self.directory, self.name = None if directory is None else Path(directory), name
        self._events: Any = None
        self._began = 0.0
        _library()

    def start(self, config: Config) -> None:
        """Open the event file, and write the settings in `config` into it."""
        self._began = time.time()
        folder = self._folder(str(config.get("run", "")))
        # purge_step: curves of an earlier run of the same name begin again
        self._events = _library().SummaryWriter(str(folder), purge_step=0, flush_secs=_FLUSH_SECONDS)
        lines = [f"| {key} | {json.dumps(value)} |" for key, value in config.items()]
        self._events.add_text("settings", "\n".join(["| setting | value |", "| --- | --- |", *lines]), 0)

    def _folder(self, run: str) -> Path:
        if run and self.directory is None:
            return Path(run, FOLDER, self.name or "")
        directory = Path(FOLDER) if self.directory is None else self.directory
        if self.name:
            return directory / self.name
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._began))
        folder = directory / (Path(run).name or f"run-{began}-{os.getpid()}")
        # never into another run's folder, unless the name was given
        return folder.with_name(f"{folder.name}-{began}") if folder.exists() else folder

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write each figure at the moment that `time` tells, where it is given.

        Args:
            step: number of the step, from 1.
            values: figures by name.
        """
        moment = self._began + values["time"] if "time" in values else time.time()
        for name, value in values.items():
            if name != "time":
                kind, own = ("test", name.removeprefix("val_")) if name.startswith("val_") else ("training", name)
                tag = f"traffic/{name}" if name in COUNTS else name if name == "epoch" else f"{own}/{kind}"
                self._events.add_scalar(tag, value, step, moment)

    def finish(self, status: str) -> None:
        """Write the `status`, "done" or "failed", and close the event file."""
        self._events.add_text("status", status, 0)
        self._events.close()


def _library() -> Any:
    try:
        import tensorboardX  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("TensorBoardWriter needs tensorboardX: pip install tensorboardX") from error
    return tensorboardX

"""Writer of runs of MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .interface import DONE, Config

__all__ = ["MLflowWriter"]
#: Figures of one call to the store, half of its limit.
_MOST = 500
#: Seconds after which waiting figures are sent, even if they are fewer.
_SECONDS = 2.0


class MLflowWriter:
    """Writer of a run into a store of MLflow: the settings as its parameters, every figure with its step.

    Args:
        experiment: name of the experiment of MLflow to which the run belongs; it is made where there is none.
        tracking_uri: the address of a server or a database, or a folder, by default where MLflow looks: `$MLFLOW_TRACKING_URI`,
            else its own choice. Newer releases take a folder with `MLFLOW_ALLOW_FILE_STORE=true` only.
        run_name: by default the name of the folder of the run.

    Needs MLflow, the extra `mlflow`; raises ImportError where it is missing.

    >>> job.parallel(nodes, writers=[MLflowWriter("digits", tracking_uri="sqlite:///runs.db")])  # doctest: +SKIP
    """

    def __init__(self, experiment: str = "parallel-sgd", tracking_uri: str | None = None, run_name: str | None = None) -> None:
        self.experiment, self.tracking_uri, self.run_name = experiment, tracking_uri, run_name
        self._client: Any = None
        self._run = ""
        self._began = 0.0
        self._waiting: list[Any] = []
        self._sent = 0.0
        # here and not at the first figure: a missing library is a wrong argument
        _library()

    def start(self, config: Config) -> None:
        """Make a run of MLflow with the settings in `config` as its parameters."""
        self._began = time.time()
        self._client = _library().MlflowClient(tracking_uri=self.tracking_uri)
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        name = self.run_name or Path(str(config.get("run", ""))).name or None
        # by the client, since the global run of MLflow may be the user's
        # several jobs may run in one program, each with a run of its own
        self._run = self._client.create_run(experiment, run_name=name).info.run_id
        for name, value in config.items():
            self._client.log_param(self._run, name, value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the figures, and send some together.

        Args:
            step: number of the step, from 1.
            values: figures by name; `time`, in seconds since the start, is their moment.
        """
        moment = round(1000 * (self._began + values["time"] if "time" in values else time.time()))
        # one call for many figures: each call to a store takes milliseconds
        metric = _library().entities.Metric
        self._waiting += [metric(name, value, moment, step) for name, value in values.items() if name != "time"]
        if len(self._waiting) >= _MOST or time.monotonic() - self._sent > _SECONDS:
            self._send()

    def finish(self, status: str) -> None:
        """Send the figures that wait and end the run; `status` is "done", or "failed"."""
        self._send()
        self._client.set_terminated(self._run, "FINISHED" if status == DONE else "FAILED")

    def _send(self) -> None:
        waiting, self._waiting, self._sent = self._waiting, [], time.monotonic()
        if waiting:
            self._client.log_batch(self._run, metrics=waiting)


def _library() -> Any:
    try:
        import mlflow  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("MLflowWriter needs MLflow: pip install mlflow-skinny") from error
    return mlflow

"""The signals of the failure detector from `Model.fit`."""

from __future__ import annotations

from collections.abc import Mapping

from nn.callback import Callback
from rpc.monitor import Monitor, job_monitor


class MonitorCallback(Callback):
    """Tells the failure detector where `fit` is, for an executor that trains with it; outside a job it does nothing.

    Epochs count over the whole life of the model, from 0, so that a continued training goes on counting.

    >>> class Train(rpc.AbsSimpleExecutor):  # doctest: +SKIP
    ...     signals = True
    ...     def run(self, com):
    ...         model.fit(x, y, epoch=5, callbacks=[parallel_sgd.MonitorCallback()])
    """

    def __init__(self, monitor: Monitor = job_monitor) -> None:
        self._monitor = monitor
        self._epoch = 0

    def on_epoch_begin(self, epoch: int) -> None:
        self._epoch = self.model.epochs_trained

    def on_batch_begin(self, batch: int) -> None:
        self._monitor.batch_begin(self._epoch, batch)

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        self._monitor.batch_end()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        self._monitor.epoch_end()

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        self._monitor.train_end()

"""The training loop of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nn.arrays import Array
from nn.callback import Callback
from nn.metric import Metric
from nn.model.batches import Batches
from nn.model.progress import Progress
from nn.model.runner import Runner
from nn.random import keyed

if TYPE_CHECKING:
    from nn.model.model import Model


class Training:
    """Trains a model for some epochs. The order of the samples is keyed by (seed, epoch), so a run can be continued."""

    def __init__(self, model: Model, runner: Runner, callbacks: Sequence[Callback], seed: int) -> None:
        self._model, self._runner, self._optimizer = model, runner, model.optimizer
        self._callbacks, self._seed = callbacks, seed
        self._metrics: list[Metric] = model.metrics
        self._loss_sum, self._samples = 0.0, 0

    def run(self, epochs: int, batches: Batches, validation: tuple[Array, Any] | None, *, shuffle: bool, silent: bool) -> None:
        """Train for some epochs and record each in the model's history."""
        model, results = self._model, dict[str, float]()
        for callback in self._callbacks:
            callback.on_train_begin()
        for number in range(epochs):
            for callback in self._callbacks:
                callback.on_epoch_begin(number)
            progress = Progress(f"Epoch {number + 1}/{epochs}", batches.samples, silent=silent)
            results = self._epoch(model.epochs_trained, batches, progress, shuffle)
            model.epochs_trained += 1
            if validation is not None:
                results.update((f"val_{name}", value) for name, value in model.evaluate(*validation).items())
            progress.finish(results)
            model.fit_history().add(model.epochs_trained, results)
            for callback in self._callbacks:
                callback.on_epoch_end(number, results)
            if model.stop_training:
                break
        for callback in self._callbacks:
            callback.on_train_end(results)

    def _epoch(self, epoch: int, batches: Batches, progress: Progress, shuffle: bool) -> dict[str, float]:
        """Train on every batch once; return loss and metrics over the epoch, each batch as it was before its update."""
        order = keyed(self._seed, "order", epoch).permutation(batches.samples) if shuffle else None
        self._loss_sum, self._samples = 0.0, 0
        for metric in self._metrics:
            metric.reset()
        for batch, (x, label) in enumerate(batches.deal(order)):
            for callback in self._callbacks:
                callback.on_batch_begin(batch)
            self._batch(x, label, (self._seed, epoch, batch, 0))
            progress.advance(len(x))
            if self._callbacks:
                logs = self._results()
                for callback in self._callbacks:
                    callback.on_batch_end(batch, logs)
        return self._results()

    def _batch(self, x: Array, label: Array, key: tuple[int, ...]) -> None:
        loss, prediction = self._runner.step(x, label, lambda variable: self._optimizer.gradient_ready(variable, 0), key)
        for awaited in self._optimizer.finish_batch():
            raise RuntimeError(f"{type(self._optimizer).__name__} waits for variable {awaited}, but fit() has no exchange")
        self._loss_sum += loss * len(x)
        self._samples += len(x)
        for metric in self._metrics:
            metric.update(label, prediction)

    def _results(self) -> dict[str, float]:
        results = {"Loss": self._loss_sum / self._samples}
        results.update((metric.name, metric.result()) for metric in self._metrics)
        return results

"""The loop of one worker, as a generator that yields what it waits for and never blocks, sleeps or touches a socket."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from nn.model import Model
from nn.optimizer import IOptimizer

from .batches import Batches
from .exchange import BlockExchange
from .report import TrainingReport
from .wait import Wait

Array = NDArray[Any]
Samples = tuple[Array, Array, Array, Array]  # train_x, train_y, test_x, test_y
Training = Generator[Wait, None, dict[str, float]]


class TrainingProcess:
    """Trains `model` on this worker's blocks of every batch, together with the workers behind `exchange`.

    `seed` keys every random draw by (seed, epoch, batch, block), so the bits depend on neither the number of workers nor a
    restart. `clock` returns monotonic seconds. `progress` is told 0..100 after every epoch.
    """

    def __init__(
        self,
        model: Model,
        optimizer: IOptimizer,
        exchange: BlockExchange,
        data: Samples,
        batches: Batches,
        blocks: Sequence[int],
        *,
        epochs: int,
        seed: int,
        clock: Callable[[], float],
        report: TrainingReport | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._exchange = exchange
        self._data = data
        self._batches = batches
        self._blocks = tuple((block, partial(optimizer.gradient_ready, block_id=block)) for block in blocks)
        self._epochs = epochs
        self._seed = seed
        self._clock = clock
        self._report = report
        self._progress = progress
        self._steps = 0
        self._start = 0.0

    def run(self) -> Training:
        """Train; the generator's value is the last evaluation, `{'Loss': .., metric: ..}` on the test set.

        Under asynchronous sync types it is the worker's own best one, that with the lowest loss.

        Raises: TimeoutError when peers do not answer in time; whatever model, codecs or data raise.
        """
        _, _, test_x, test_y = self._data
        result: dict[str, float] = {}
        try:
            self._start = self._clock()
            for epoch in range(self._epochs):
                for batch in range(self._batches.count):
                    yield from self._batch(epoch, batch)
                evaluation = self._model.evaluate(test_x, test_y)
                if not (result and self._exchange.sync.staleness and result["Loss"] <= evaluation["Loss"]):
                    result = evaluation
                if self._report is not None:
                    self._report.evaluation(list(evaluation.values()))
                    self._report.times(epoch + 1, self._exchange.accounts.watch.times())
                    self._report.save()
                if self._progress is not None:
                    self._progress(100 * (epoch + 1) // self._epochs)
        finally:
            self._exchange.close()
            if self._report is not None:
                self._report.save()
        return result

    def _batch(self, epoch: int, batch: int) -> Generator[Wait, None, None]:
        train_x, train_y, _, _ = self._data
        self._exchange.begin(epoch, batch)
        self._optimizer.begin_batch()
        for block, gradient_ready in self._blocks:
            rows = self._batches.rows(batch, block)
            label = train_y[rows]
            loss, prediction = self._model.compute_gradients(
                train_x[rows], label, gradient_ready, key=(self._seed, epoch, batch, block)
            )
            if self._model.store.buffers:
                self._optimizer.buffers_ready(block)
            self._steps += 1
            if self._report is not None:
                self._record(self._report, epoch, batch, loss, label, prediction)
        for variable in self._optimizer.finish_batch():
            yield from self._exchange.wait(variable)

    def _record(self, report: TrainingReport, epoch: int, batch: int, loss: float, label: Array, prediction: Array) -> None:
        row: list[float | int] = [
            round(self._clock() - self._start, 6),
            epoch + 1,
            batch + 1,
            self._batches.count * len(self._blocks),
            self._steps,
            loss,
        ]
        for metric in self._model.metrics:
            metric.reset()
            metric.update(label, prediction)
            row.append(metric.result())
        report.step(tuple(row))

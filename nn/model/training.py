"""The training loop of one process, and its progress on the terminal."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, TextIO

import numpy as np

from nn.arrays import Array, all_finite
from nn.callback.callback import Callback
from nn.callback.monitor import Monitored
from nn.extension import is_ours
from nn.metric.metric import Metric
from nn.model.batches import ArraySource, Batch, Source, first_bad
from nn.model.history import Results, in_notebook
from nn.optimizer.interface import GDOptimizer
from nn.plan.plan import OnGradient
from nn.value.value import Value, Variable

if TYPE_CHECKING:
    from nn.model.trained_network import TrainedNetwork

MOST_WAITING, WAITING_BYTES = 32, 64 << 10
"""Batches, and bytes of labels and predictions of each, that wait for the metrics: code that runs once in a step finds the
caches full of the model and takes ten times as long as code that runs again and again."""


class Training:
    """Training of a model for some epochs. Everything random is keyed by (seed, epoch, batch), so a run can be continued."""

    def __init__(
        self, model: TrainedNetwork, callbacks: Sequence[Callback], seed: int, *, stop_on_nan: bool, silent: bool
    ) -> None:
        self._model, self._runner, self._optimizer = model, model.runner, model.optimizer
        self._callbacks = callbacks
        # Results of each batch cost time; they are made where a callback looks at them.
        self._follow_batches = any(type(found).on_batch_end is not Callback.on_batch_end for found in callbacks)
        # One that is called between two batches may change samples, and an optimizer of one's own may look at them again.
        self._deals_ahead = (
            is_ours(type(self._optimizer))
            and not self._follow_batches
            and all(type(found).on_batch_begin is Callback.on_batch_begin for found in callbacks)
        )
        self._coming: Iterator[Batch] | None = None
        self._ahead: list[Batch | None] = []
        self._small = True
        # an optimizer of one's own may change gradients while they come
        self._keeps_gradients = type(self._optimizer).gradient_ready is GDOptimizer.gradient_ready
        # Nothing is to be told to one that takes the gradients from the store.
        self._on_gradient: OnGradient | None = None if self._keeps_gradients else self._tell
        self._seed, self._stop_on_nan, self._silent = seed, stop_on_nan, silent
        self._metrics: Sequence[Metric] = model.metrics
        self._loss_sum, self._samples = 0.0, 0
        self._waiting: list[tuple[list[Array], list[Array], list[Array | None]]] = []
        self._aim = model._aim
        self._scored = list(zip(self._aim.seen, self._aim.metrics, strict=True))
        self._weighs = any(metric._inner() is not metric for metric in self._aim.metrics)
        self._places = range(len(self._aim.losses))
        self._parts = np.zeros(len(self._aim.losses))
        self._several = len(self._aim.names) > 1 + len(self._aim.metrics)

    def run(self, epochs: int, source: Source, validation: Source | None) -> None:
        """Train for some epochs and record each in the model's history."""
        model, results = self._model, Results()
        last = model.epochs_trained + epochs
        finite = "fit() 'validation_data'" if self._stop_on_nan else None
        names = list(self._aim.names)
        names += [f"val_{name}" for name in names] if validation is not None else []
        for callback in self._callbacks if all(is_ours(type(each)) for each in self._callbacks) else ():
            # a user's callback may add results of its own
            if isinstance(callback, Monitored):
                callback.check_results(names)
        for callback in self._callbacks:
            callback.on_train_begin()
        for number in range(epochs):
            if model.stop_training:
                break
            # Callbacks of the last epoch may have frozen layers, which has no effect here.
            model._refuse_if_marked_anew("fit()")
            for callback in self._callbacks:
                callback.on_epoch_begin(number)
            with Progress(f"Epoch {model.epochs_trained + 1}/{last}", source.samples, silent=self._silent) as progress:
                results = self._epoch(model.epochs_trained, source, progress)
                # Before the epoch is counted: one whose validation fails is in no row of the history.
                if validation is not None:
                    measured = model._measure_batches(validation.deal(model.epochs_trained), finite)
                    results.update((f"val_{name}", value) for name, value in measured.items())
                # Before the callbacks: they and a file count this epoch as trained.
                model.epochs_trained += 1
                progress.finish(results)
            model.fit_history().add(model.epochs_trained, results)
            for callback in self._callbacks:
                callback.on_epoch_end(number, results)
            # a round of its own, so that a file holds the state of callbacks that stand behind the one that writes it
            for callback in self._callbacks:
                callback.on_epoch_settled(number, results)
        for callback in self._callbacks:
            callback.on_train_end(results)

    def _epoch(self, epoch: int, source: Source, progress: Progress) -> Results:
        """Train on every batch once; return loss and metrics over the epoch, each batch as it was before its update."""
        self._loss_sum, self._samples = 0.0, 0
        self._parts[:] = 0
        for metric in self._metrics:
            metric.reset()
        batches = source.deal(epoch)
        self._coming = batches if self._deals_ahead and isinstance(source, ArraySource) else None
        number, batch = 0, next(batches, None)
        while batch is not None:
            for callback in self._callbacks:
                callback.on_batch_begin(number)
            self._batch(batch, epoch, number)
            progress.advance(len(batch.x[0]))
            if self._follow_batches:
                logs = self._results()
                for callback in self._callbacks:
                    callback.on_batch_end(number, logs)
            number, batch = number + 1, self._ahead.pop() if self._ahead else next(batches, None)
        return self._results()

    def _batch(self, batch: Batch, epoch: int, number: int) -> None:
        # numbers that are not finite are told by an error with their place, or wanted; not by warnings besides
        with np.errstate(all="ignore"):
            sure: set[Value] | None = set() if self._stop_on_nan and self._keeps_gradients else None
            loss, predictions = self._runner.step(
                batch.x,
                batch.label,
                self._on_gradient,
                # The last number is the block of the batch: in one process there is one.
                (self._seed, epoch, number, 0),
                batch.weight,
                sure=sure,
            )
            # Before the rule runs: the parameters stay as they were.
            if self._stop_on_nan and not (math.isfinite(loss) and self._finite_gradients(sure)):
                raise self._not_finite(loss, batch, epoch, number)
            # The lanes of the plan are free now.
            lanes, rule = self._runner.lanes, self._optimizer.rule
            if rule.team is not lanes:
                rule.team = lanes
            if lanes is None:
                self._model.apply_gradients()
                self._note(batch, loss, predictions)
            else:
                # While other threads are at their shares of the vector: they begin later than this one.
                lanes.beside(partial(self._note, batch, loss, predictions), self._model.apply_gradients)
        if not self._small or number % MOST_WAITING == 0:
            self._update_metrics()

    def _note(self, batch: Batch, loss: float, predictions: tuple[Array, ...]) -> None:
        """Add a step to the figures of the epoch, and deal the next batch unless a callback may look at this one."""
        count = len(batch.x[0])
        self._loss_sum += loss * count
        self._samples += count
        if self._several:
            self._parts += np.multiply(self._runner.losses, count)
        held = 0
        for each in (*batch.label, *predictions):
            held += each.nbytes
        labels, seen = list(batch.label), list(predictions)
        weights = list(batch.weight or (None,) * len(labels)) if self._weighs else []
        if self._runner.masked:
            for place in self._places:
                labels[place], seen[place] = self._runner.counted(place, labels[place], seen[place])
                if self._weighs:
                    weights[place] = self._runner.counted_weight(place, weights[place])
        self._small = held <= WAITING_BYTES
        if self._small:
            # Copies, as the next step writes its results over these arrays.
            for place in self._places:
                labels[place], seen[place] = labels[place].copy(), seen[place].copy()
            weights = [None if weight is None else weight.copy() for weight in weights]
            if self._coming is not None:
                self._ahead.append(next(self._coming, None))
        self._waiting.append((labels, seen, weights))

    def _tell(self, variable: Variable) -> None:
        self._optimizer.gradient_ready(variable, 0)

    def _update_metrics(self) -> None:
        """Have the metrics take in the labels and predictions that wait for them."""
        waiting, self._waiting = self._waiting, []
        for labels, predictions, weights in waiting:
            for place, metric in self._scored:
                metric._weigh(labels[place], predictions[place], weights[place] if weights else None)

    def _finite_gradients(self, sure: set[Value] | None) -> bool:
        store = self._model.store
        # Without any that is sure one look goes over the whole vector.
        looked_at = [each.gradient for each in store.variables if each not in sure] if sure else [store.gradients]
        return all(map(all_finite, looked_at)) and (not store.buffers or all_finite(store.buffer_changes))

    def _not_finite(self, loss: float, batch: Batch, epoch: int, number: int) -> FloatingPointError:
        """Say where it began: in the samples, in a layer, in the loss, or on the way back. The parameters are as they were."""
        return FloatingPointError(
            f"fit() stopped in epoch {epoch + 1} at batch {number + 1}: the loss is {loss}; "
            f"{where_not_finite(self._model, batch, loss)} (fit(stop_on_nan=False) goes on)"
        )

    def _results(self) -> Results:
        self._update_metrics()
        parts = (self._parts / self._samples).tolist() if self._several else ()
        return Results(self._aim.results(self._loss_sum / self._samples, parts))


def where_not_finite(model: TrainedNetwork, batch: Batch, loss: float) -> str:
    """Return where the last step of a model first got a number that is not finite, as a clause.

    Args:
        model: of which the step was computed.
        batch: that of the step.
        loss: that of the step.
    """
    found = first_bad(batch, model._input_names)
    if found is not None:
        return found
    if math.isfinite(loss):
        store = model.store
        # As backward goes, so that the first one found is where it began.
        variables = [*reversed(store.variables), *store.buffers]
        first = next(variable.name for variable in variables if not all_finite(variable.gradient))
        return f"the gradient of variable '{first}' is not finite"
    found = model.runner.first_not_finite()
    return f"the first that is not finite is {found}" if found else "samples, layers and variables are finite"


FIRST_LINE: Final = 10.0
"""Seconds of an epoch after which a program without a bar is told how far it is."""


class Progress:
    """One line per epoch with its results, for any width of the terminal; a bar in its place while the epoch lasts.

    Where there is no terminal, or one that does not say how wide it is, there is no bar: of an epoch that takes longer than
    `FIRST_LINE` seconds a line tells how far it is, and others follow after twice the time each. Nothing at all if silent.

    Args:
        title: text before the bar.
        samples: number of samples of an epoch; None where it is not known.
        silent: whether nothing is written.
    """

    def __init__(self, title: str, samples: int | None, *, silent: bool) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - a tenth of the time of `import nn`, and workers show no bar

        self._title, self._silent = title, silent
        self._samples, self._done = samples, 0
        self._began = perf_counter()
        self._due = self._began + FIRST_LINE
        hidden = silent or not _columns(sys.stderr)
        self._bar = tqdm(total=samples, desc=title, unit=" samples", leave=False, disable=hidden)
        self._stream = sys.stdout if in_notebook() else sys.stderr
        self.advance: Callable[[int], object] = self._count if hidden and not silent else self._bar.update
        self._write = tqdm.write

    def _count(self, samples: int) -> None:
        """Count samples that were trained; tell how many there are when it is time."""
        self._done += samples
        now = perf_counter()
        if now < self._due:
            return
        took = now - self._began
        self._due = self._began + 2 * took
        told = f"{self._done:,} samples"
        if self._samples is not None and self._done < self._samples:
            left = took * (self._samples - self._done) / self._done
            told = f"{100 * self._done // self._samples} % of {self._samples:,} samples, about {left:.0f} s left"
        self._write(f"{self._title}: {took:.0f} s, {told}", file=self._stream)
        self._stream.flush()

    def finish(self, results: Mapping[str, float]) -> None:
        """Show the results of the epoch, and the seconds it took."""
        # The bar makes room for the line.
        self._bar.close()
        if not self._silent:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self._write(f"{self._title}: {shown} ({perf_counter() - self._began:.1f} s)", file=self._stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        # a bar that stopped halfway stays above the error
        self._bar.leave = kind is not None
        self._bar.close()


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal; 0 where there is none or it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (AttributeError, OSError, ValueError):
        return 0

"""Training loop of one worker, as a generator that yields its waits and never blocks, sleeps or touches a socket."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model
from nn.model.batches import ArraySource, Batch, as_type, first_bad
from nn.model.scored_network import evaluation_source
from nn.optimizer import IOptimizer
from nn.value import Variable
from rpc.monitor import Monitor
from rpc.support.logs import get_logger

from ..record.block_history import Recorder
from ..record.report import StepRows, TrainingReport
from ..record.spared import spared
from .accounts import BatchWatch
from .batches import Batches, BlockFeeder
from .callbacks import JobCallbacks
from .channel import Wait
from .exchange import BlockExchange
from .progress import History, Position, Progress

if TYPE_CHECKING:
    from ..checkpoint.keeper import WorkerKeeper
    from .plan import WorkerPlan

_log = get_logger("parallel_sgd.checkpoint")
Training = Generator[Wait, None, dict[str, float]]
Faults = Callable[[int, int], bool]
GradientReady = Callable[[Variable], None]


@dataclass(frozen=True)
class Hooks:
    """Receivers of the events of the loop, and the faults that may spoil its samples.

    Args:
        report: the tables of the run, or None.
        progress: called with 0..100 and a text after every epoch.
        monitor: gets the signals of the failure detector.
        faults: called at the beginning of every batch; it spoils the samples of the batch by returning True.
        folder: folder in which callbacks leave files.
        remarks: gets the failures behind the last batch.
        block: called with epoch, batch and block before each block step, or None.
        evaluation: called with the evaluation in its place, or None.
        steps: gets the rows of the block steps in place of the report, or None.
        feeder: returns the result of its argument, or one that another worker of the process has.
    """

    report: TrainingReport | None = None
    progress: Callable[[int, str], None] | None = None
    monitor: Monitor = field(default_factory=Monitor)
    faults: Faults | None = None
    folder: Path = Path()
    remarks: list[str] = field(default_factory=list)
    block: Callable[[int, int, int], None] | None = None
    evaluation: Callable[[Callable[[], dict[str, float]]], dict[str, float]] | None = None
    steps: Callable[[tuple[float | int, ...]], None] | None = None
    feeder: Callable[[Callable[[], BlockFeeder]], BlockFeeder] = lambda make: make()


@dataclass(frozen=True)
class Work:
    """Work of one worker: its `blocks` of every batch of the samples.

    Args:
        data: train_x, train_y, test_x, test_y.
        batches: the batches of an epoch.
        blocks: numbers of the blocks of this worker.
    """

    data: Arrays
    batches: Batches
    blocks: Sequence[int]


@dataclass(frozen=True)
class Continuity:
    """Begin of training, and the parts that carry a state from one attempt to the next.

    Args:
        start: the progress at which training begins.
        checkpoints: saves the state of the worker, or None.
        recorder: is told of every batch that was applied, or None.
        callbacks: are told of every epoch, or None.
        models: those of earlier rounds with which clients still train, which go into checkpoints.
    """

    start: Progress = field(default_factory=Progress)
    checkpoints: WorkerKeeper | None = None
    recorder: Recorder | None = None
    callbacks: JobCallbacks | None = None
    models: dict[str, Array] = field(default_factory=dict)


def prepared(model: Model, transform: AbsTransformer | None, samples: Arrays, seed: int, *, keeps_plan: bool) -> Arrays:
    """Return the samples as the model is trained on them, and complete the plan of the model.

    A plan of the model is never applied here: the data set has made numbers of its rows by it already.

    Args:
        model: its `inputs` get the statistics of the transforms.
        transform: that of the job, or None.
        samples: those of the data set.
        seed: that of the job.
        keeps_plan: whether the plan of the model is that of the data set of this job.
    """
    if transform is None:
        return samples
    if not keeps_plan:
        made: Arrays = transform(*samples, seed=seed)
        return made
    from nn.dataset.plan.fitting import transformed  # noqa: PLC0415 - for a job with a plan or a transform

    made, plan = transformed(transform, samples, seed, model.inputs)
    if plan is None:
        _log.info("The model file has no plan of columns: a transform does not say what it does at prediction, fitted() does.")
    model.inputs = plan if plan is not None and (plan.columns or plan.labels or plan.steps) else None
    return made


class TrainingProcess:
    """Training of `model` on this worker's blocks of every batch, together with the workers behind `exchange`.

    The job's seed keys every random draw by (seed, epoch, batch, block), and every epoch's order by (seed, epoch); so the bits
    depend on neither the number of workers nor a restart. `clock` returns monotonic seconds. Training goes on from
    `continuity.start`, to the same number of epochs in all. The monitor gets the signal of an epoch when it need not be
    computed again: with checkpoints, when a state after it is saved.

    In the last batch of an epoch, the tail that fills no batch, gradients that are exchanged are multiplied by (samples of the
    block) * blocks / samples, so that their mean over blocks is the mean over samples. Updates and parameters are not: under an
    optimizer that exchanges these a worker steps by the mean over its own samples.
    """

    def __init__(
        self,
        plan: WorkerPlan,
        model: Model,
        optimizer: IOptimizer,
        exchange: BlockExchange,
        work: Work,
        clock: Callable[[], float],
        hooks: Hooks,
        continuity: Continuity,
    ) -> None:
        options, blocks, batches = plan.options, work.blocks, work.batches
        self._model = model
        self._optimizer = optimizer
        self._exchange = exchange
        self._data = work.data
        self._batches = batches
        # bound once, not for every block of every batch
        self._blocks = tuple((block, partial(optimizer.gradient_ready, block_id=block)) for block in blocks)
        self._pairs = exchange.pairs(optimizer)
        self._reuse: Callable[[int], Callable[[], None] | None] | None = getattr(
            optimizer, "reuse", None
        )  # of gradients, in large simulations
        self._epochs = options.epoch
        self._seed = options.seed
        self._order, self._limits = plan.order, plan.limits
        self._class_weight = options.class_weight
        scaled = getattr(optimizer, "puts", "") == "gradients"  # an update of a worker's own samples is by its own mean
        # without scaling a worker steps by the mean over its own blocks, so only their sizes count
        self._tail_factors = batches.tail_factors(range(batches.block_count) if scaled else blocks)
        # rows say how many block steps an epoch has: blocks without samples in the tail are none
        self._steps_of_epoch = batches.count * len(blocks) - batches.idle(blocks)
        self._clock = clock
        self._report = hooks.report
        steps = hooks.steps if hooks.steps is not None or hooks.report is None else hooks.report.step
        self._rows = None if steps is None else StepRows(steps, list(zip(model._aim.seen, model.metrics, strict=True)))
        self._several = len(model.result_names) > 1 + len(model.metrics)
        self._times = BatchWatch(exchange.accounts.watch)
        if hooks.report is not None:
            hooks.report.traffic(exchange.accounts.traffic)
        self._progress = hooks.progress
        self._from = continuity.start
        self._checkpoints = continuity.checkpoints
        self._monitor = hooks.monitor
        self._faults = hooks.faults
        self._block = hooks.block
        self._evaluation = hooks.evaluation
        self._share = hooks.feeder
        self._remarks = hooks.remarks
        self._recorder = continuity.recorder
        self._callbacks = continuity.callbacks
        self._models = continuity.models
        self._test_batches: ArraySource | None = None  # the test set, once it was evaluated
        self._unsaved: list[int] = []  # epochs that are over and not told
        self._applied = self._from.position
        self._current: tuple[int, int, int, tuple[Array, ...]] = (0, 0, 0, ())  # epoch, batch, and block with its samples
        self._whole = True  # False while the results of a batch are being applied
        self._steps = self._from.steps
        self._start = 0.0
        self._params = {"epoch": options.epoch, "batch_size": batches.batch_size, "steps": batches.count, "seed": options.seed}

    def run(self) -> Training:
        """Train; the generator's value is the last evaluation, `{'Loss': .., metric: ..}` on the test set.

        Under asynchronous sync types it is the worker's own best one, that with the lowest loss.

        Raises: TimeoutError when peers do not answer in time, FloatingPointError for a loss that is not finite; each error of
        model, codecs or data.
        """
        first, skipped = self._from.position
        result = dict(self._from.evaluation)
        try:
            # so that the seconds of a training that goes on count on
            self._start = self._clock() - self._from.seconds
            self._prepare()
            # only behind a whole epoch: within one, `result` is the evaluation of the epoch before
            if self._report is not None and first and not skipped:
                self._report.goes_on_after(first, list(result.values()), self._values())
            if self._callbacks is not None:
                self._callbacks.begin(first, self._params)
            for epoch in range(first, self._epochs):
                if self._callbacks is not None:
                    # asked before the first epoch too: a callback may end training in `on_train_begin`
                    if self._callbacks.stopped:
                        break
                    # an attempt that goes on within an epoch does not begin it again: the
                    # callbacks heard of it before the failure
                    if epoch > first or not skipped:
                        self._callbacks.epoch_begin(epoch)
                self._feeder.begin(epoch)
                for batch in range(skipped if epoch == first else 0, self._batches.count):
                    self._monitor.batch_begin(epoch, batch)
                    yield from self._batch(epoch, batch)
                    # from here on a failure leaves the state after this batch (`_leave`)
                    self._applied = Position(epoch, batch + 1)
                    if self._recorder is not None:
                        self._recorder.applied(epoch, batch)
                    self._monitor.batch_end()
                    # the state after the last batch is saved behind the evaluation, with the epoch
                    if self._checkpoints is not None and batch + 1 < self._batches.count:
                        yield from self._save(Position(epoch, batch + 1), result)
                if self._rows is not None:
                    self._rows.flush()  # before the metrics are those of the evaluation
                evaluation = self._evaluate()
                # a worker that runs ahead of the others has a model of its own, of which the best one counts
                if not (result and self._exchange.sync.staleness and result["Loss"] <= evaluation["Loss"]):
                    result = evaluation
                with self._guard(epoch, "The tables of the last epoch"):
                    self._write(epoch, evaluation)
                # before the checkpoint, which holds the state of the callbacks after this epoch
                with self._guard(epoch, "The callbacks of the last epoch"):
                    if self._callbacks is not None:
                        self._callbacks.epoch_end(epoch, evaluation)
                with self._guard(epoch, "The checkpoint of the last epoch"):
                    # before it is saved: `_save` tells the epochs that are safe, and this one may be among them
                    self._unsaved.append(epoch + 1)
                    self._applied = Position(epoch + 1, 0)
                    yield from self._save(Position(epoch + 1, 0), result)
                with self._guard(epoch, "The progress of the last epoch"):
                    if self._progress is not None:
                        done = 100 if self._stopped else 100 * (epoch + 1) // self._epochs
                        self._progress(done, f"Loss {result['Loss']:.4f}")
            # RUN-8: training has its result, so an error from here on is a remark
            with spared("The end of the callbacks", self._remarks):
                if self._callbacks is not None and self._callbacks.end(result):
                    result = self._evaluate()
        # GeneratorExit too: `run_process` closes this generator when a peer is lost, which leaves a state as well
        except BaseException:
            self._leave(result)
            raise
        finally:
            for part in (self._checkpoints, self._callbacks, self._exchange):
                with spared("The end of training", self._remarks):
                    if part is not None:
                        part.close()
            with spared("The end of the tables", self._remarks):
                # of a training that failed, too: its rows up to the failure are on the disk
                if self._report is not None and self._rows is not None:
                    self._rows.flush()
                    self._report.save()
        with spared("The signals of the end", self._remarks):
            self._tell_epochs()
            # reached by a training that has ended well alone: after this signal the process is no longer watched (FD-5)
            self._monitor.train_end()
        return result

    def _guard(self, epoch: int, what: str) -> AbstractContextManager[None]:
        """Return a context that keeps an error behind the last epoch from the result; behind earlier ones it ends training."""
        # RUN-8: behind the last epoch an error costs a file, not the result
        return spared(what, self._remarks) if epoch + 1 == self._epochs or self._stopped else nullcontext()

    def _write(self, epoch: int, evaluation: dict[str, float]) -> None:
        """Write the rows of an epoch that is over."""
        if self._report is not None:
            self._report.evaluation(epoch + 1, list(evaluation.values()))
            self._report.weights(epoch + 1, self._values())
            self._report.times(epoch + 1, self._exchange.accounts.watch.times())
            self._report.save()

    def _values(self) -> dict[str, Array]:
        return {each.name: each.value for each in self._model.store.everything}

    @property
    def _stopped(self) -> bool:
        """Whether a callback has ended training before its last epoch."""
        return self._callbacks is not None and self._callbacks.stopped

    def _evaluate(self) -> dict[str, float]:
        return self._measure() if self._evaluation is None else self._evaluation(self._measure)

    def _measure(self) -> dict[str, float]:
        source = self._test_batches or evaluation_source(self._model, self._data[2:], "evaluate() 'x'")
        # labels are checked once; memory for samples in another type is not held while the model is trained
        self._test_batches = source if isinstance(source, ArraySource) and not source.converts else None
        batches = self._alive(source.deal(0))
        return dict(self._model._measure_batches(batches, "evaluate() 'x'"))  # it travels as a plain one

    def _alive(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            # an evaluation may take longer than a batch: the detector must not take it for a stuck worker
            self._monitor.alive()
            yield batch

    def _prepare(self) -> None:
        """Prepare the samples: once, not block by block."""
        self._feeder = self._share(self._made_feeder)
        # asked once: most samples have the type of the model, and need no look at each block
        self._converts = self._feeder.types != {self._model.dtype}

    def _made_feeder(self) -> BlockFeeder:
        # the feeder keeps these arrays for the whole training, so nothing is converted twice
        samples, labels, weights = self._converted()
        cuts = self._model._cuts(self._limits, samples) if self._limits else None
        return BlockFeeder(self._batches, samples, labels, self._order, self._seed, weights, cuts)

    def _converted(self) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array | None, ...] | None]:
        """Check the samples, and bring their labels into the form of the loss; return them and the weights of samples."""
        samples = self._model._take_samples(self._data[0])
        if self._class_weight is None:
            return samples, self._model._take_labels(self._data[1], samples), None
        return self._model._take_block(self._data[0], self._data[1], None, self._class_weight)

    def _save(self, position: Position, result: dict[str, float]) -> Generator[Wait, None, None]:
        """Save the state where that is due, and tell of the epochs that are safe."""
        checkpoints = self._checkpoints
        # a training that a callback ends has no later position at which its last state would be due
        if checkpoints is not None and (checkpoints.due(position) or self._stopped):
            # saving has a limit of its own in the failure detector (FD-17)
            self._monitor.save_begin()
            if self._report is not None and self._rows is not None:
                self._rows.flush()
                self._report.save()  # rows before this position are in the file when the checkpoint is
            if self._optimizer.by_shard and checkpoints.gathers(position):
                self._exchange.begin(position.epoch - 1, self._batches.count)  # a batch of its own, after the epoch's last
                # a worker has the rule's slots of its own shard alone, and a checkpoint is whole only with all of them
                for variable in self._optimizer.gather_state():
                    yield from self._exchange.wait(variable)
            checkpoints.keep(self._progress_at(position, result))
            self._monitor.save_end()
        elif checkpoints is not None and checkpoints.commits_at(position):
            checkpoints.commit(self._progress_at(position, result))
        if self._unsaved:
            self._tell_epochs()

    def _leave(self, result: dict[str, float]) -> None:
        """Save the state that training has reached: a batch is applied wholly or not at all, so nothing of it need be computed
        again.
        """
        # nothing new since the checkpoint from which training began: that one is on the disk already
        if self._checkpoints is not None and self._whole and self._applied > self._from.position:
            try:
                self._checkpoints.leave(self._progress_at(self._applied, result))
            except Exception:  # noqa: BLE001  a user's state_dict() may raise anything, and the first error counts
                _log.exception("The state after %s could not be saved", self._applied)

    def _progress_at(self, position: Position, result: dict[str, float]) -> Progress:
        history = History() if self._recorder is None else self._recorder.history
        return Progress(position, self._steps, self._clock() - self._start, result, history)

    def _tell_epochs(self) -> None:
        # FD-11: an epoch is told when its state is safe, so that no epoch that was told is computed again
        while self._unsaved and (self._checkpoints is None or self._checkpoints.settled(Position(self._unsaved[0], 0))):
            epoch = self._unsaved.pop(0)
            self._monitor.epoch_end(epoch - 1)

    def _batch(self, epoch: int, batch: int) -> Generator[Wait, None, None]:
        model, times = self._model, self._times
        times.begin()
        # first, since a fault may end this process
        spoiled = self._faults is not None and self._faults(epoch, batch)
        self._exchange.begin(epoch, batch)
        self._optimizer.begin_batch()
        in_tail = batch == self._batches.whole
        # each block of the tail has a factor of its own, with which its gradient must be multiplied before it is added
        pairs = frozenset[int]() if in_tail else self._pairs
        others_wait = False
        for block, gradient_ready in self._blocks:
            if others_wait:
                self._exchange.still_computing()
            others_wait = True
            factor = self._tail_factors[block] if in_tail else 1.0
            if self._reuse is not None and factor and (put_again := self._reuse(block)) is not None:
                self._steps += 1
                if self._block is not None:
                    self._block(epoch, batch, block)
                put_again()
            elif factor:
                # a factor of exactly 1 changes no bit, and needs no pass over the gradient
                ready = gradient_ready if factor == 1 else partial(_multiplied, gradient_ready, factor)
                asked = times.clock()
                samples, label, weight = self._feeder.deal(batch, block)
                if self._converts:
                    samples = tuple([as_type(each, model.dtype) for each in samples])
                times.data += times.clock() - asked
                if spoiled:
                    samples = tuple([np.full(each.shape, np.nan, each.dtype) for each in samples])
                self._current = (epoch, batch, block, samples)
                if self._block is not None:
                    self._block(epoch, batch, block)
                # keys dropout and its kind, so that a block has the same bits on whichever worker computes it
                key = (self._seed, epoch, batch, block)
                put = None if block + 1 in pairs else ready  # the sum is, with the next one
                adds = self._exchange.sums = block in pairs
                runner = model.runner
                loss, prediction = runner.step(samples, label, put, key, weight, on_loss=self._check, add=adds)
                # buffers are put below, and they are no sums
                self._exchange.sums = False
                self._steps += 1
                if self._rows is not None:
                    seconds = round(self._clock() - self._start, 6)
                    parts = runner.losses if self._several else ()
                    if runner.masked:
                        label, prediction = runner.all_counted(label, prediction)
                    head = (seconds, epoch + 1, batch + 1, self._steps_of_epoch, self._steps, loss, *parts)
                    self._rows.add(head, label, prediction)
            else:
                self._pass_over(gradient_ready)
            if model.store.buffers:
                self._optimizer.buffers_ready(block)
        yield from self._finish(epoch, batch)

    def _finish(self, epoch: int, batch: int) -> Generator[Wait, None, None]:
        """Wait for the results of a batch whose blocks are put, and apply them."""
        times = self._times
        # an error while results are applied leaves some variables updated and others not: no state to save
        self._whole = False
        times.put()
        for variable in self._optimizer.finish_batch():
            self._whole, before = True, self._exchange.accounts.watch.wait  # it waits, and applies when it has all results
            yield from self._exchange.wait(variable)
            self._whole = False
            times.waited(before, self._exchange.bank.partner)
        self._whole = True
        if self._report is not None:
            self._report.batch(times.row(epoch, batch))

    def _pass_over(self, gradient_ready: GradientReady) -> None:
        """Put gradients of 0 for a block without samples, which the others wait for, and no changes of buffers."""
        store = self._model.store
        # in place: the exchange has views of these very arrays
        store.gradients[:] = 0
        store.buffer_changes[:] = 0
        # in the order of backward, as for any other block
        for variable in reversed(store.variables):
            gradient_ready(variable)

    def _check(self, loss: float) -> None:
        """Check that the loss is finite before a gradient of it goes to other workers and spoils their parameters."""
        if not math.isfinite(loss):
            epoch, batch, block, samples = self._current
            bad = first_bad(Batch(samples, (), None, samples, self._feeder.places(batch, block)), self._model._input_names)
            where = f"training {bad}" if bad else self._model.runner.first_not_finite()
            # all numbers are finite, and too large for a loss of them
            why = f"the first that is not finite: {where}" if where else "outputs of the model, or labels, are too large for it"
            raise FloatingPointError(f"The loss is {loss} in {self._whereabouts(epoch, batch)}; {why}")

    def _whereabouts(self, epoch: int, batch: int) -> str:
        """Tell, for a message, the place of a block step in training."""
        return f"epoch {epoch + 1}, batch {batch + 1}"


def _multiplied(gradient_ready: GradientReady, factor: float, variable: Variable) -> None:
    # in place: codecs know the gradient by its array (`BlockExchange.put`)
    np.multiply(variable.gradient, factor, out=variable.gradient)
    gradient_ready(variable)

"""Training of clients: a batch of the job is a round, and the block of a slot is the change that its client has made."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nn.arrays import Array, empty
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.model.batches import as_type
from nn.model.runner import Runner
from nn.optimizer import OpContainer

from ..engine.accounts import BatchWatch
from ..engine.batches import SHUFFLED, BlockFeeder
from ..engine.channel import Wait
from ..engine.training import TrainingProcess
from .clients import OWN
from .contributions import Contributions
from .held_out import ClientTests
from .population import Population, Round, Rows, class_counts, dealt
from .rounds import Visit
from .versions import Versions

if TYPE_CHECKING:
    from ..engine.plan import WorkerPlan
    from .memory import Memories
    from .remembering import Remembering

Samples = tuple[Array, ...]
Weights = tuple[Array | None, ...] | None
#: Bytes of the samples of a client that are gathered together, where they are of several steps.
_GATHERED: Final = 1 << 18
#: Bytes of predictions of a client's last pass of which metrics are computed; the samples behind them have none.
_MOST_SHOWN: Final = 16 << 20


class ClientFeeder(BlockFeeder):
    """Source of the samples of a step, whose rows are given.

    Args:
        feeder: arguments of `BlockFeeder`.
        rows: those of each client.
        held: those of each client that are held out, none where none are.
        tested: samples and labels of the set that has the rows that are held out.
    """

    def __init__(self, rows: list[Rows], held: list[Rows], tested: tuple[Samples, Samples], *feeder: object) -> None:
        super().__init__(*feeder)  # type: ignore[arg-type]
        self.rows, self.held, self._tested = rows, held, tested
        self._now: Array = np.empty(0, np.int64)
        self._part = slice(None)
        size, arrays = self._batches.block_size, [array for array, _ in (*self._samples, *self._labels)]
        self._room = size * max(1, _GATHERED // max(size * sum(array[:1].nbytes for array in arrays), 1))
        for taken in (self._samples, self._labels):
            taken[:] = [(array, empty((self._room, *array.shape[1:]), array.dtype)) for array, _ in taken]

    def begin(self, epoch: int) -> None:
        """Begin an epoch; clients have orders of their own."""

    def steps(self, rows: Rows, dtype: np.dtype[Any], times: BatchWatch) -> Iterator[tuple[int, Samples, Samples, Weights]]:
        """Yield the steps of a pass over rows: number of samples, samples in the type of the model, labels, weights. Those of
        several steps are gathered at once; they are valid until the next step.

        Args:
            rows: those of the pass, in order.
            dtype: type of the model.
            times: gets the seconds that it takes.
        """
        size = self._batches.block_size
        for start in range(0, len(rows), self._room):
            asked = times.clock()
            self._now, self._part = rows[start : start + self._room], slice(None)
            given, labels, weights = self.deal(0, 0)  # epoch and batch do not matter: `places` says the rows
            samples = [as_type(array, dtype) for array in given]
            times.data += times.clock() - asked
            count = len(self._now)
            for at in range(0, count, size):
                end = min(at + size, count)
                part = self._part = slice(at, end)
                weight = None if weights is None else tuple([None if each is None else each[part] for each in weights])
                yield end - at, tuple([each[part] for each in samples]), tuple([each[part] for each in labels]), weight

    def labels(self, rows: Rows) -> Samples:
        """Return the labels of rows, as arrays of their own."""
        return tuple([array[rows] for array, _ in self._labels])

    def tests(self, model: Model, clients: Iterable[int], memory: Remembering | None) -> ClientTests:
        """Return the evaluation of clients on the samples that are held out.

        Args:
            model: that of the job.
            clients: their numbers.
            memory: that of the clients.
        """
        return ClientTests(model, *self._tested, {client: self.held[client] for client in clients}, memory)

    def places(self, batch: int, block: int) -> Array:
        return self._now[self._part]


class ClientTraining(TrainingProcess):
    """Training of the clients in this worker's slots of every round.

    For each slot parameters and statistics are set to those of the global model, in asynchronous rounds to earlier ones, the
    rule begins anew, and the client trains on its own samples. `factor * (w_global - w_client)` is put as the gradient of the
    block: the mean over all blocks is the weighed mean change, and the rule that all workers run on it is the server's. A codec
    that encodes client by client gets `w_global - w_client`, and weighs where it merges.
    """

    def __init__(self, memories: Memories | None, plan: WorkerPlan, model: Model, *parts: Any) -> None:
        super().__init__(plan, model, *parts)
        options = plan.options
        if options.clients is None:
            raise ValueError("ClientTraining 'plan' must have clients, got None")
        self._clients = options.clients
        # one rule for all clients, which begins anew for each: its scratch memory stays
        self._local = OpContainer(options.op_type, options.gd_type, options.gd_params).rule()
        values = [variable.value for variable in model.store.variables]
        self._local.partition([value.size for value in values], [value.shape for value in values])
        self._schedule = self._local.schedule
        self._versions = Versions(model.store, self._models)
        self._origin = model.store.values
        self._pull = np.empty_like(model.store.values) if self._clients.prox else None
        # the change of the first of two blocks that are put together: the gradients are those of the steps of the next
        self._first = empty(model.store.values.shape if self._pairs else (0,), model.store.dtype)
        self._now = ""
        self._block_size = options.block_size
        # one table for all: each worker would write the same
        self._is_first = 0 in dict(self._blocks)
        self._visited = None if self._report is None else self._report.clients()
        self._rounds = None if self._report is None or self._clients.clock is None else self._report.rounds()
        self._contributions = sent = Contributions(self._exchange, model.store, self._clients)
        self._tests: ClientTests | None = None
        self._memory: Remembering | None = None
        if memories is not None:
            from .remembering import Remembering  # noqa: PLC0415 - where clients remember something

            self._memory = Remembering(self._clients, memories, self._exchange, sent.encoding, model.store)

    def _made_feeder(self) -> ClientFeeder:
        samples, labels, weights = self._converted()
        rows, held = dealt(self._clients, self._data[1], self._seed)
        if self._report is not None and self._is_first:
            self._report.population([len(each) for each in rows], class_counts(self._clients, self._data[1], rows))
        tested = samples, labels
        if self._clients.test == OWN:
            given = self._model._take_samples(self._data[2])
            tested = given, self._model._take_labels(self._data[3], given)
        return ClientFeeder(rows, held, tested, self._batches, samples, labels, SHUFFLED, self._seed, weights)

    def _prepare(self) -> None:
        super()._prepare()
        feeder = self._feeder
        if not isinstance(feeder, ClientFeeder):
            raise TypeError(f"ClientTraining needs a ClientFeeder, got {type(feeder).__name__}")
        self._source = feeder
        sizes = [len(each) for each in feeder.rows]
        self._population = Population(self._clients, sizes, self._seed, self._block_size)
        if self._report is not None and feeder.held:
            # dealt as evenly as slots are, so that no worker waits long for another one
            here, count, slots = {block for block, _ in self._blocks}, self._clients.count, self._clients.slots
            mine = [client for client in range(count) if client * slots // count in here]
            self._tests = feeder.tests(self._model, mine, self._memory)
            self._of = sum(len(held) > 0 for held in feeder.held)
            self._tested = self._report.client_tests(self._model.result_names[1:])

    def _write(self, epoch: int, evaluation: dict[str, float]) -> None:
        if self._tests is not None:
            for client, samples, found in self._tests.results(self._alive):
                self._tested((epoch + 1, client, self._of, samples, *found.values()))
        super()._write(epoch, evaluation)

    def _batch(self, epoch: int, batch: int) -> Generator[Wait, None, None]:
        store = self._model.store
        self._times.begin()
        spoiled = self._faults is not None and self._faults(epoch, batch)
        self._exchange.begin(epoch, batch)
        self._optimizer.begin_batch()
        now = self._population.round(epoch * self._batches.count + batch)
        self._versions.begin(now.number)
        for block, gradient_ready in self._blocks:
            visit = now.visits[block]
            self._steps += 1
            begun = self._clock()
            if self._block is not None:
                self._block(epoch, batch, block)
            if visit is None:
                self._leave_nothing(block)
            else:
                losses = self._train(epoch, batch, now, visit, spoiled)
                seconds = round(self._clock() - begun, 6)
                norm = self._leave_change(now, block, visit)
            # of two blocks that the tree adds up first the sum is put, with the second
            if block + 1 not in self._pairs:
                self._exchange.sums = block in self._pairs
                for variable in reversed(store.variables):  # the order of backward, in which any other job puts them
                    gradient_ready(variable)
                # buffers are no sums
                self._exchange.sums = False
            if visit is not None and self._visited is not None:
                place = (epoch + 1, batch + 1, now.number + 1, block, visit.client, self._size(visit.client))
                # only an encoding that has run knows its bytes
                sent = self._contributions.bytes_up(), self._contributions.bytes_down
                clock = (visit.begins, visit.arrives, now.number - visit.version, len(now.course.visits))
                self._visited((seconds, *place, int(losses[0]), *losses[1:], norm, *sent, *clock))
            if store.buffers:
                self._optimizer.buffers_ready(block)
            if self._memory is not None:
                self._memory.put(block, now.slots[block])
        if self._memory is not None:
            # before anything is applied: a round that breaks off has changed neither model nor memories
            while not self._exchange.sync.ready(self._memory.place):
                yield from self._exchange.sync.wait(self._memory.place)
        yield from self._finish(epoch, batch)
        self._versions.end(now.course.waiting)
        if self._rounds is not None:
            course = now.course
            counts = (course.asked, len(course.visits), course.lost, course.late)
            self._rounds((course.number + 1, epoch + 1, batch + 1, course.begins, course.ends, *counts))
        if self._memory is not None:
            self._memory.apply(now)

    def _train(self, epoch: int, batch: int, now: Round, visit: Visit, spoiled: bool) -> tuple[float, float, float]:
        """Train a client, from the model with which it begins, and leave its parameters in the model; return as `_visit`."""
        store = self._model.store
        self._now = f"client {visit.client}"
        self._origin, statistics = self._versions[visit.version]
        # in the round's own model it is that already: each client leaves it behind
        if visit.version != now.number:
            np.copyto(store.values, self._origin)
            np.copyto(store.buffer_values, statistics)
        if self._memory is not None:
            self._memory.begin(visit.client)
        try:
            losses = self._visit(epoch, batch, visit, spoiled)
        except BaseException:
            # the state that is left behind is that after the batch before, not that of a client
            self._restore(now)
            raise
        if self._memory is not None:
            self._memory.trained(self._origin, int(losses[0]), float(self._local.learn_rate))
        return losses

    def _leave_change(self, now: Round, block: int, visit: Visit) -> float:
        """Leave the weighed change of the client that has trained as the gradients, in the second of two blocks that are put
        together the sum of both, and set the model to that of the round again; return the norm of the change before its weight.
        """
        store, origin, factor = self._model.store, self._origin, now.factors[block]
        values, statistics = self._versions[now.number]
        adds, gradients = block in self._pairs, self._first if block + 1 in self._pairs else store.gradients
        squares = 0.0
        # all of it stretch by stretch, which stays in the cache from one operation to the next
        for part, weighed in self._contributions.stretches:
            own, change = store.values[part], gradients[part]
            np.subtract(origin[part], own, out=change)
            squares += float(np.vdot(change, change))
            if weighed:
                np.multiply(change, factor, out=change)
            if adds:
                np.add(self._first[part], change, out=change)
            np.copyto(own, values[part])
        if store.buffers:
            np.subtract(store.buffer_values, self._versions[visit.version][1], out=store.buffer_changes)
            store.buffer_changes *= now.shares[block]
            np.copyto(store.buffer_values, statistics)
        return math.sqrt(squares)

    def _leave_nothing(self, block: int) -> None:
        """Leave a change of 0, as `_leave_change` leaves another, for a block without a client."""
        store = self._model.store
        gradients = self._first if block + 1 in self._pairs else store.gradients
        gradients[:] = 0
        if block in self._pairs:
            # a sum, not a copy: it makes 0.0 of -0.0, as the tree does
            np.add(self._first, gradients, out=gradients)
        store.buffer_changes[:] = 0

    def _restore(self, now: Round) -> None:
        """Set the model to that of a round, before all of its clients."""
        values, statistics = self._versions[now.number]
        np.copyto(self._model.store.values, values)
        np.copyto(self._model.store.buffer_values, statistics)

    def _size(self, client: int) -> int:
        return int(self._population.sizes[client])

    def _measure(self) -> dict[str, float]:
        if self._memory is None:
            return super()._measure()
        with self._memory.evaluated():
            return super()._measure()

    def _visit(self, epoch: int, batch: int, visit: Visit, spoiled: bool) -> tuple[float, float, float]:
        """Train a client, and leave its parameters in the model; return the number of its steps, the loss of the first and that
        of the last.
        """
        model, store, clients = self._model, self._model.store, self._clients
        client, number = visit.client, visit.key
        rule, runner, memory = self._begun_rule(visit.version), model.runner, self._memory
        pull, drift, term = self._pull, None if memory is None else memory.drift, clients.term
        kept = {} if memory is None else memory.kept
        passes = self._population.passes(client, number)
        # what stays with a client is not drawn to the global model
        stays = () if memory is None else memory.personal
        step, first, loss = 0, 0.0, 0.0
        for each in range(passes):
            # of the last pass, for its row
            order = self._source.rows[client][self._population.order(number, client, each)]
            is_shown = self._rows is not None and each + 1 == passes
            shown = _Shown(runner, self._several, len(order)) if is_shown else None
            for count, samples, label, weight in self._source.steps(order, model.dtype, self._times):
                # for each step: other workers may wait long for the one that has the largest client
                self._exchange.still_computing()
                if spoiled:
                    samples = tuple([np.full(array.shape, np.nan, array.dtype) for array in samples])
                self._current = (epoch, batch, client, samples)
                # keys dropout and its kind: a client draws the same in whichever slot it is
                key = (self._seed, number, client, step)
                loss, prediction = runner.step(samples, label, None, key, weight, on_loss=self._check)
                if pull is not None:
                    np.subtract(store.values, self._origin, out=pull)
                    pull *= clients.prox
                    for part in stays:
                        pull[part] = 0
                    store.gradients += pull
                if drift is not None:
                    store.gradients += drift
                if term is not None:
                    added = term.added(store.values, self._origin, kept)
                    if stays:
                        added = added.copy()  # a term may return an array that it keeps
                    for part in stays:
                        added[part] = 0
                    store.gradients += added
                rule.update(store.values, store.gradients)
                store.apply_changes()
                if not step:
                    first = loss
                step += 1
                if shown is not None:
                    shown.add(count, loss, label, prediction)
            # a client may take longer than all others, and the detector must not take its worker for a stuck one
            self._monitor.alive()
            if shown is not None and self._rows is not None:
                seconds = round(self._clock() - self._start, 6)
                place = (epoch + 1, batch + 1, self._steps_of_epoch, self._steps)
                self._rows.add((seconds, *place, *shown.losses()), *shown.arrays(self._source, order), kept=True)
        return step, first, loss

    def _begun_rule(self, number: int) -> IGradientDescent:
        """Return the rule of a client as new; its schedule, if it has one, counts rounds."""
        rule = self._local
        rule.load_state_dict({"step": 0})
        if self._schedule is not None:
            rule.learn_rate = self._schedule(number)
        return rule

    def _whereabouts(self, epoch: int, batch: int) -> str:
        return f"{super()._whereabouts(epoch, batch)}, {self._now}"


class _Shown:
    """Losses, labels and predictions of the steps of a pass.

    Args:
        runner: that of the model.
        several: whether the loss of each output is told, behind their sum.
        samples: number of samples of the pass.
    """

    def __init__(self, runner: Runner, several: bool, samples: int) -> None:
        self._runner, self._several, self._samples = runner, several, samples
        self._sums: list[float] = []
        self._predictions: list[_Rows] = []
        self._labels: list[_Rows] = []
        self._room = _MOST_SHOWN

    def add(self, count: int, loss: float, label: Samples, prediction: Samples) -> None:
        """Take the step that the runner has taken last; its arrays may change afterwards."""
        runner = self._runner
        if not self._sums:
            self._sums = [0.0] * (1 + len(runner.losses) * self._several)
            self._predictions = [_Rows(self._samples) for _ in prediction]
            # else all of them are gathered at the end
            self._labels = [_Rows(self._samples) for _ in label] if runner.masked else []
        self._sums[0] += loss * count
        if self._several:
            for place, value in enumerate(runner.losses, 1):
                self._sums[place] += value * count
        if self._room <= 0:
            return
        if runner.masked:
            label, prediction = runner.all_counted(label, prediction)
            for held, array in zip(self._labels, label, strict=True):
                held.add(array)
        for held, array in zip(self._predictions, prediction, strict=True):
            held.add(array)
            self._room -= array.nbytes

    def losses(self) -> list[float]:
        """Return the mean of each loss over the samples of the pass."""
        return [total / self._samples for total in self._sums]

    def arrays(self, source: ClientFeeder, order: Rows) -> tuple[Samples, Samples]:
        """Return labels and predictions of the pass, as arrays of their own.

        Args:
            source: that of the samples.
            order: rows of the pass.
        """
        predictions = tuple([held.whole() for held in self._predictions])
        if self._labels:
            return tuple([held.whole() for held in self._labels]), predictions
        return source.labels(order[: len(predictions[0])]), predictions


class _Rows:
    """Rows of the arrays of steps, one behind the other.

    Args:
        expected: number of rows for which there is room at first.
    """

    __slots__ = ("_end", "_held", "_room")

    def __init__(self, expected: int) -> None:
        self._held: Array | None = None
        self._room, self._end = expected, 0

    def add(self, rows: Array) -> None:
        """Add a copy of some rows."""
        start, self._end = self._end, self._end + len(rows)
        held = self._held
        if held is None or self._end > len(held):
            # of several positions of a sample there are more rows than samples
            room = max(self._room if held is None else 2 * self._end, self._end)
            self._held = np.empty((room, *rows.shape[1:]), rows.dtype)
            if held is not None:
                self._held[:start] = held[:start]
            held = self._held
        held[start : self._end] = rows

    def whole(self) -> Array:
        """Return all rows."""
        return np.empty(0) if self._held is None else self._held[: self._end]

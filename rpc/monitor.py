"""Signals by which a program tells the failure detector where it is.

    from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_epoch_end, monitor_train_end

    for epoch in range(epochs):
        for batch in batches:
            monitor_batch_begin()
            ...
            monitor_batch_end()
        monitor_epoch_end()
    monitor_train_end()

Inside a job process each call writes one signal, in about a microsecond, where the agent finds it; outside they do nothing. A
process that has begun a batch and does not end it in time is stuck: it is ended, and the verdict names epoch and batch.
`monitor_epoch_end` before `monitor_batch_end` is fine; a long save is told by `monitor_save_begin` and `monitor_save_end`, long
work between batches (a validation of minutes) by `monitor_alive` now and then.
"""

from __future__ import annotations

from .liveness.recorder import Kind, Recorder

__all__ = [
    "monitor_alive",
    "monitor_batch_begin",
    "monitor_batch_end",
    "monitor_epoch_end",
    "monitor_save_begin",
    "monitor_save_end",
    "monitor_train_end",
]

_BEGIN, _END = int(Kind.BEGIN), int(Kind.END)  # plain numbers cost half as much to write as members


class Monitor:
    """Signals of one process. It counts epochs and batches, from 0, unless it is told where training is."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._epoch = self._batch = 0  # of the next batch
        self._open = (0, 0)  # of the batch that began last
        self._by_hand = False  # whether the program tells of its batches
        self._achieved = 0

    def attach(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def detach(self) -> None:
        """Let all later calls of this object do nothing."""
        self._recorder = None

    def batch_begin(self, epoch: int | None = None, batch: int | None = None) -> None:
        """Signal that a batch begins.

        Raises: ValueError when epoch or batch is out of range.
        """
        recorder = self._recorder
        if recorder is None:
            return
        if epoch is None:
            epoch = self._epoch
        if batch is None:
            batch = self._batch
        recorder.note(_BEGIN, epoch, batch)
        # after the note, which may refuse the numbers
        self._open = (epoch, batch)
        self._epoch, self._batch = epoch, batch + 1
        self._by_hand = True

    def progress(self) -> None:
        """Signal progress that a library knows of: from now on it counts as a step until the next such call.

        It signals nothing once the program tells of its batches, which it knows better.
        """
        if self._recorder is not None and not self._by_hand:
            self._recorder.note(_BEGIN, 0, self._achieved)
            self._achieved += 1

    def batch_end(self) -> None:
        if self._recorder is not None:
            self._recorder.note(_END, *self._open)

    def epoch_end(self, epoch: int | None = None) -> None:
        """Signal that the epoch has ended, that of the last batch unless another is given; its state is saved."""
        if self._recorder is not None:
            ended = self._open[0] if epoch is None else epoch
            self._recorder.note(Kind.EPOCH, ended, self._open[1])
            self._epoch, self._batch = ended + 1, 0

    def train_end(self) -> None:
        """Signal that training has ended: the process is not watched any more."""
        self._note(Kind.TRAIN_END)

    def save_begin(self) -> None:
        """Signal that a save begins, which has a limit of its own."""
        self._note(Kind.SAVE_BEGIN)

    def save_end(self) -> None:
        self._note(Kind.SAVE_END)

    def work_begins(self, number: int) -> None:
        """Signal that a piece of work begins, `number` in a count of the program's own, from 1: a verdict on the process
        names the last.
        """
        if self._recorder is not None:
            self._recorder.begins(number)

    def alive(self) -> None:
        """Signal that work outside a batch goes on."""
        if self._recorder is not None:
            self._recorder.works()

    def _note(self, kind: Kind) -> None:
        if self._recorder is not None:
            self._recorder.note(kind, *self._open)


job_monitor = Monitor()
"""Signals of this process: a job process attaches its recorder to them, elsewhere they do nothing."""

attach, detach = job_monitor.attach, job_monitor.detach

# functions, not methods of it: code that travels takes a method with a copy of its object, but a function by its name


def monitor_batch_begin(epoch: int | None = None, batch: int | None = None) -> None:
    """Signal that a batch begins.

    Args:
        epoch, batch: numbers from 0; they are counted here unless given.

    Raises: ValueError when they are out of range.
    """
    job_monitor.batch_begin(epoch, batch)


def monitor_batch_end() -> None:
    """Signal that the batch that began last has ended."""
    job_monitor.batch_end()


def monitor_epoch_end() -> None:
    """Signal that the epoch of the last batch has ended; its state is saved."""
    job_monitor.epoch_end()


def monitor_train_end() -> None:
    """Signal that training has ended: the process is not watched any more."""
    job_monitor.train_end()


def monitor_save_begin() -> None:
    """Signal that a save begins, which has a limit of its own."""
    job_monitor.save_begin()


def monitor_save_end() -> None:
    """Signal that the save has ended."""
    job_monitor.save_end()


def monitor_alive() -> None:
    """Signal that long work outside a batch goes on."""
    job_monitor.alive()

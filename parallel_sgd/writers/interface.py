"""Interface of a writer, the writers of a job together, and the one of a `Model.fit`.

To add one: a module of this package with a class that has the methods of `Writer`, its name in the `__init__.py` here, and its
word in `writer` of the module that reads the words of parts (`named_parts`). A test that reads its files by the tool for which
it writes stands in tests/equivalence/test_writers.py, and `make extras` installs that tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from nn.arguments import is_list
from nn.callback import Callback
from nn.extension import check_like
from rpc.support.logs import get_logger
from rpc.user_code import raised_by

_log = get_logger("parallel_sgd.writers")
DONE: Final = "done"
FAILED: Final = "failed"
Config: TypeAlias = Mapping[str, bool | int | float | str]
Traffic: TypeAlias = Mapping[str, int | str]
"""Row of `JobHistory.traffic`: node, codec, epoch, batch, packets and bytes."""


class Writer(Protocol):
    """Follower of one run: `start` once, `log` as often as there are figures, `finish` once, however the run ends.

    A writer may have a method `log_traffic(step, rows)`, too: after each `log` of a job it gets the rows of
    `JobHistory.traffic` of that batch, one for each worker and codec.
    """

    def start(self, config: Config) -> None:
        """Begin a run; `config` are its settings, by name, of a job with `run`, the path of its folder, and `job`, its id."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the figures of a step; steps only grow, and each comes once, however often a job starts again. Of a job a step
        is a batch, counted from 1, which comes a second or two after all workers have done it; in `fit` it is an epoch.

        Args:
            step: number of the step, from 1.
            values: figures by name. Of a job `Loss` and the metrics are those in training, the mean over all blocks of the
                batch, and `time` the seconds since training began; `packets_sent`, `bytes_sent`, `wire_sent` and those received
                are of all workers together; of a job with clients `client_bytes` are those that the clients of the round sent
                and got, `seconds` those of the round on their clock; with the last batch of an epoch come `epoch` and the
                results on test data, `val_...`.
        """

    def finish(self, status: str) -> None:
        """End the run; `status` is "done", or "failed"."""


class _Tracker:
    """Writer out of a module, or an object, of the shape of `wandb` and `trackio`: `init(config=)`, `log(values, step=)`,
    `finish()`.
    """

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def start(self, config: Config) -> None:
        # `wandb` returns a run, others keep it in the module
        self._run = self._tracker.init(config=dict(config)) or self._tracker

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def finish(self, status: str) -> None:
        self._run.finish()


def as_writer(owner: str, given: Any) -> Writer:
    """Return the writer that was given, or one out of an object of the shape of `wandb`.

    Raises: TypeError for anything else, naming the methods that it lacks or that do not take the arguments of the engine.
    """
    if isinstance(given, type):
        raise TypeError(f"{owner} must be writers, got the class {given.__name__}; write {given.__name__}(...)")
    # by methods, so that a writer need not derive from anything
    has = {name for name in ("start", "init", "log", "finish") if callable(getattr(given, name, None))}
    if {"start", "log", "finish"} <= has:
        check_like(given, Writer)
        writer: Writer = given
        return writer
    if {"init", "log", "finish"} <= has:
        return _Tracker(given)
    lacks = " and ".join(sorted({"start", "log", "finish"} - has))
    raise TypeError(f"{owner} must have start(config), log(step, values) and finish(status), but {given!r:.80} lacks {lacks}")


def check_writers(name: str, writers: Any) -> tuple[Writer, ...]:
    """Check the option `writers` of a job, and return the writers."""
    if isinstance(writers, Mapping) or not is_list(writers):
        raise TypeError(f"'{name}' must be a list of writers, got {type(writers).__name__}; write [...]")
    return tuple(as_writer(f"'{name}'", writer) for writer in writers)


class Writers:
    """All writers of a run. One that raises is told once, and is left alone from then on: training does not depend on it."""

    def __init__(self, writers: Iterable[Writer]) -> None:
        self._writers = list(writers)

    def start(self, config: Config) -> None:
        self._each(lambda writer: writer.start(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._each(lambda writer: writer.log(step, values))

    def log_traffic(self, step: int, rows: Sequence[Traffic]) -> None:
        self._each(lambda writer: getattr(writer, "log_traffic", _nothing)(step, rows))

    def finish(self, status: str) -> None:
        self._each(lambda writer: writer.finish(status))

    def _each(self, call: Callable[[Writer], None]) -> None:
        # a copy, since a writer that fails is removed meanwhile
        for writer in list(self._writers):
            try:
                call(writer)
            except Exception as error:  # noqa: BLE001  another's library may raise anything, the run goes on
                # it has failed once, and each further call would fail again
                self._writers.remove(writer)
                told = raised_by(error) or f"{type(error).__name__}: {error}"
                _log.warning("%s fails and is left out: %s", type(writer).__name__, told)


def _nothing(*_: object) -> None:
    """Do nothing: of a writer that takes no rows."""


class WriterCallback(Callback):
    """Callback that gives a writer the epochs of a `Model.fit`, as they end: step n is epoch n.

    Args:
        writer: a `Writer`, or a module of the shape of `wandb`.

    >>> class Printed:
    ...     def start(self, config):
    ...         print("start", sorted(config))
    ...     def log(self, step, values):
    ...         print(step, sorted(values))
    ...     def finish(self, status):
    ...         print(status)
    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.compile("sgd", "crossentropy_with_softmax")
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epochs=1, verbose=0, callbacks=[WriterCallback(Printed())])
    start ['batch_size', 'epoch', 'seed', 'steps']
    1 ['Loss']
    done
    """

    def __init__(self, writer: Writer | Any) -> None:
        self._writers = Writers([as_writer("WriterCallback 'writer'", writer)])

    def on_train_begin(self) -> None:
        self._writers.start({name: value for name, value in self._fit_params.items() if value is not None})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        self._writers.log(self.model.epochs_trained, logs)

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        self._writers.finish(DONE)

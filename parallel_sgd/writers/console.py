"""Console of a job: model, data and place of the training, a line per epoch, and at the end the time, the best epoch and the
files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from nn.dataset.interface import Arrays
from nn.model.history import VALIDATION
from rpc.submit.run_folder import shown
from rpc.support.logs import BRIEF, COPIED, PLAIN, SUBMIT_LOGGER, get_logger
from rpc.support.processors import usable_cores

from ..nodes import InProcessNodes, are_here
from ..options.spec import JobSpec
from ..record.history import COUNTED, EPOCH, DealtSteps, Figures, JobHistory, Parts, lost_steps, over_epoch
from ..record.numbers import seconds
from ..record.report import model_name
from ..record.run import JobResult
from ..record.summary import best_epoch, crowd_sentence, effort_of, epoch_line, times_of
from ..record.tables import read_columns, read_table
from ..run_page.data import effort_in
from ..run_page.records import RunRecords

__all__ = ["JobConsole"]
_log = get_logger(SUBMIT_LOGGER)
_KEYS = (EPOCH, "batch", "time")
_Step = tuple[int, int, Figures, Mapping[str, int], tuple[int, int] | None]


class JobConsole:
    """Console that tells of a job, in lines of the log that a short console shows; one of the whole story has only the last
    ones.

    Args:
        spec: the job.
        arrays: its samples.
    """

    def __init__(self, spec: JobSpec, arrays: Arrays) -> None:
        self._spec = spec
        self._samples = len(arrays[0]), len(arrays[2])
        self._began = monotonic()
        self._head = False
        self._told = 0
        #: by epoch: batch, number of rows, their mean, how much of them has a figure that others lack, samples
        self._steps: defaultdict[int, list[_Step]] = defaultdict(list)
        self._parts = Parts()
        self._dealt = DealtSteps()
        nodes = spec.options.nodes
        self._workers = len(nodes.worker_ids)
        crowd = crowd_sentence(self._workers, usable_cores()) if are_here(nodes) else ""
        if crowd:
            _log.info("%s", crowd, extra=PLAIN)
        # figures of a job that takes times alone say nothing
        self._learns = not isinstance(nodes, InProcessNodes) or nodes.learns
        self._crowded = bool(crowd) or (isinstance(nodes, InProcessNodes) and not nodes.simulated)

    def begin(self, folder: Path, job: str) -> None:
        """Tell workers, place, samples and epochs of the training, before the first batch of the first attempt.

        Args:
            folder: folder of the run.
            job: id of the job.
        """
        # told once, however often the job starts again
        if self._head:
            return
        self._head = True
        given, (train, test) = self._spec.options, self._samples
        nodes = given.nodes
        if isinstance(nodes, InProcessNodes):
            place = nodes.place
        elif are_here(nodes):
            place = "on this machine"
        else:
            hosts = sorted({address.host for _, address in nodes.items()})
            place = f"on {', '.join(hosts)}" if len(hosts) <= 3 else f"on {len(hosts)} machines"
        workers = f"{self._workers} worker{'s' * (self._workers != 1)}"
        server = " and a parameter server" if nodes.has_parameter_server else ""
        epochs = f"{given.epoch} epoch{'s' * (given.epoch != 1)}"
        words = f"{workers}{server} {place}, {self._spec.samples(train, test, ',')}, {epochs}"
        _log.info("%s: %s", given.mission_title, words, extra=BRIEF)
        if isinstance(nodes, InProcessNodes) and nodes.simulated:
            _log.info("hosts    %s", nodes.simulated, extra=BRIEF)
        if self._spec.resume is not None:
            _log.info("%s", self._spec.resume.told(given.epoch), extra=BRIEF)
            # the run before has told its epochs
            self._told = self._spec.resume.before
        _log.info("job %s, files in %s", job, shown(folder), extra=BRIEF)

    def take(self, history: JobHistory) -> None:
        """Tell the epochs that a piece of the history completes; steps come once each, in order."""
        self._parts = history.parts or self._parts
        for row in history.steps:
            # after a restart rows of epochs that were told come again
            if row[EPOCH] > self._told:
                place = int(row[EPOCH]), int(row["batch"])
                figures = {name: row[name] for name in row if name not in _KEYS}
                own = place[1], history.told[place], figures, history.defined.get(place, {}), history.samples.get(place)
                self._steps[place[0]].append(own)
        for row in history.rows:
            tests = {name: value for name, value in row.items() if name.startswith(VALIDATION)}
            # with its evaluation an epoch is complete
            if tests and row[EPOCH] > self._told:
                steps = self._steps[int(row[EPOCH])]
                means, untold = self._over(int(row[EPOCH]), steps) if steps else ({}, 0)
                self._tell({EPOCH: row[EPOCH], **means, **tests}, untold)

    def _over(self, epoch: int, steps: Sequence[_Step]) -> tuple[Figures, int]:
        """Return the mean over an epoch, and how many block steps have no row."""
        batches = [(count, figures) for _, count, figures, *_ in steps]
        dealt = self._dealt.of(epoch, [(batch, count) for batch, count, *_ in steps], self._parts)
        # rows of clients are as many as have taken part
        defined, samples = [step[3] for step in steps], [step[4] for step in steps]
        return over_epoch(batches, dealt, defined, self._spec.options.clients is not None, samples)

    def take_all(self, history: JobHistory) -> None:
        """Tell the epochs of the whole history that were not told yet."""
        for row in history.rows:
            if row[EPOCH] > self._told:
                self._tell(row, history.untold.get(int(row[EPOCH]), 0))

    def _tell(self, row: Figures, untold: int) -> None:
        self._told = int(row[EPOCH])
        for epoch in [epoch for epoch in self._steps if epoch <= self._told]:
            del self._steps[epoch]
        if not self._learns:
            return
        line = epoch_line({name: row[name] for name in row if name not in COUNTED}, max(self._spec.options.epoch, self._told))
        _log.info("%s%s", line, f"   ({lost_steps(untold)})" if untold else "", extra=BRIEF)

    def done(self, result: JobResult) -> None:
        """Tell the end: seconds and their shares, one worker's time, the best epoch, where the report and the model of the
        `result` are.
        """
        # of the tables, as in the report: the seconds behind the last epoch are no part of training
        tables = [path for paths in result.files.values() for path in paths if path.name.startswith("TI-")]
        common = f"TR-{self._spec.options.mission_title}.csv"  # of those that have no tables of their own
        workers = len(result.models) if any(path.name == common for paths in result.files.values() for path in paths) else 0
        effort = effort_of((times_of(read_columns(path)) for path in tables), self._spec.options.redundancy, workers)
        if result.folder is not None and (result.restarts or result.failures or self._spec.resume is not None):
            # as in the report, which has the batches of those that are no more
            effort = effort_in(RunRecords.read(result.folder, lambda door, name: read_table(door, name)[0])) or effort
        best = best_epoch(result.history) if self._learns else None
        restarts = f", {result.restarts} restart{'s' * (result.restarts != 1)}" if result.restarts else ""
        epochs = int(result.history.rows[-1][EPOCH]) if result.history.rows else self._spec.options.epoch
        early = f" after {epochs} of {self._spec.options.epoch} epochs, as a callback asked"
        early *= bool(self._spec.options.callbacks) and epochs < self._spec.options.epoch
        shares = "" if effort is None else f": {effort.shares}"
        # the rest is the start of the job, the way home of its files, and the report
        before = " with what went before" * (self._spec.resume is not None)
        training = "" if effort is None else f" (training {seconds(effort.seconds)}{before})"
        if result.simulated is not None:  # the shares are of virtual seconds, as all that follows
            codecs = "" if result.simulated.codec_time else ", without the time of codecs"
            training = ""
            shares = f". Simulated, not measured: {seconds(result.simulated.seconds)} of virtual time{codecs}{shares}"
        _log.info("done in %s%s%s%s%s", seconds(monotonic() - self._began), training, early, restarts, shares, extra=PLAIN)
        if effort is not None and effort.workers > 1:
            _log.info("%s", effort.told(self._crowded), extra=PLAIN)
        if best is not None:
            _log.info("best     %s", best, extra=PLAIN)
        if result.report is not None:
            _log.info("report   %s", shown(result.report), extra=COPIED)
        if (model := _model_of(result, self._spec.options.mission_title)) is not None:
            _log.info("model    %s", shown(model), extra=COPIED)


def _model_of(result: JobResult, title: str) -> Path | None:
    for node in sorted(result.models):
        for path in result.files.get(node, ()):
            if path.name == model_name(title, node):
                return path
    return None

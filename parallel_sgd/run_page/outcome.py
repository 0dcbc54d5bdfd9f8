"""Outcome of a run, kept beside its tables (`outcome.json`) when it ends, and its page, which never makes a job fail."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nn.model.diagram import Diagram, summarize
from nn.model.picture import draw
from nn.threads import describe_blas
from parallel_sgd.checkpoint.snapshot import versions
from parallel_sgd.errors import NOT_BEGUN, JobFailed
from parallel_sgd.options.job_options import options
from parallel_sgd.options.spec import JobSpec
from parallel_sgd.record.call import line_to_go_on
from parallel_sgd.record.defaults import differing
from parallel_sgd.record.door import Door
from parallel_sgd.record.files import OUTCOME
from parallel_sgd.record.identity import environment_of
from parallel_sgd.record.machine import MACHINE
from parallel_sgd.record.paths import told_path
from parallel_sgd.record.settings import settings_of_run
from parallel_sgd.record.simulated import Simulated
from parallel_sgd.record.spared import spared
from parallel_sgd.record.tables import read_identities
from rpc.submit import Run, RunFolder, interrupted, telling, uninterrupted
from rpc.submit.run_folder import shown
from rpc.support.files import publish
from rpc.support.logs import BRIEF, COPIED, HEADLINE, PLAIN, SUBMIT_LOGGER, get_logger
from rpc.support.places import data_without_places

from .records import RunRecords
from .report import write_page

if TYPE_CHECKING:
    from .live import LivePage

_MOST_TEXT = 300
_PATHS = ("directory", "discovery", "resume")  # options that may be one
_MODE = 0o644
_log = get_logger(SUBMIT_LOGGER)


class Outcome:
    """Outcome of a run: the driver of the run enters the end of each attempt that failed, and the result.

    `page` is where its report is, once it is written; `goes_on`: the submitter that waited for the job leaves it to its nodes;
    `notes`: sentences of nodes on their troubles while the job went on, such as a full disk.
    """

    def __init__(self, spec: JobSpec, samples: Sequence[int], folder: Path, machine: Mapping[str, str]) -> None:
        self._about = _described(spec, samples, folder, machine)
        self.incidents: list[dict[str, Any]] = []
        self.page: Path | None = None
        self.records: RunRecords | None = None
        self.goes_on = False
        self.notes: list[str] = []
        self._story = ""
        #: whether what is left of a run that is done is told by others
        self._is_told = True
        self._end: dict[str, Any] = {"state": "failed", "message": ""}

    @property
    def about_model(self) -> str:
        """Model as a table of its layers."""
        return str(self._about["model"]["summary"])

    @property
    def end(self) -> dict[str, str]:
        """State of the run, and the sentence on it."""
        return {"state": str(self._end["state"]), "message": self._story or str(self._end.get("message", ""))}

    @property
    def named(self) -> str:
        """The part that Ctrl-C stops now, in words."""
        return "What follows the job, which is done," if self._is_done else "The job"

    @property
    def _is_done(self) -> bool:
        return bool(self._end["state"] == "done")

    def attempt_failed(self, attempt: int, failed: JobFailed) -> None:
        """Enter a failed attempt, counted from 0; the job goes on with another one."""
        from .story import said_of  # noqa: PLC0415 - most runs end well

        self.incidents.append({"time": time.time(), "attempt": attempt, **said_of(failed)})

    def done(
        self,
        figures: Mapping[str, float],
        failures: Mapping[int, tuple[str, str]],
        problems: Sequence[str] = (),
        simulated: Simulated | None = None,
    ) -> None:
        """Enter a good end.

        Args:
            figures: the result.
            failures: those of nodes that could be done without.
            problems: those of the ledger of the run.
            simulated: the times of a run on simulated nodes.
        """
        self._end = {
            "state": "done",
            "figures": dict(figures),
            "failures": [[node, *told] for node, told in failures.items()],
            "problems": list(problems),
            **({} if simulated is None else {"simulated": _times_of(simulated)}),
            **({"notes": self.notes} if self.notes else {}),
        }

    def ended_by(self, error: BaseException) -> None:
        """Enter the error with which the job ended."""
        from .story import end_of  # noqa: PLC0415 - most runs end well

        # the run has its result, whatever was pressed afterwards
        if self._is_done and isinstance(error, KeyboardInterrupt):
            self._is_told = False
            return
        self._end = end_of(error, self.goes_on)
        self._end["notes"] += self.notes

    def write(self, folder: Path) -> None:
        """Write the outcome into the folder of the run. Raises: OSError."""
        environment = _of_nodes(self._about["environment"], folder)
        content = {
            **self._about,
            **self._end,
            "environment": environment,
            "incidents": self.incidents,
            "ended": time.time(),
        }
        # RUN-11: a run may be passed on, so no path of this machine stays in it
        publish(folder / OUTCOME, json.dumps(data_without_places(content, folder), indent=1), _MODE)

    def write_page(self, folder: Path) -> None:
        """Write the page of the run and its timeline, after its outcome. Raises: OSError."""
        # read back from the folder, so that this page is the one that `psgd report` writes again
        records = self.records = RunRecords.read(folder)
        if self._end["state"] != "done":
            from .story import lines  # noqa: PLC0415 - as above

            self._story = lines(records)
        self.page = write_page(records)

    def tell_how_it_goes_on(self, folder: Path) -> None:
        """Log where the page is and, unless the run is done, the call or command that lets it go on; of a run that was stopped
        and has no checkpoint, that it goes on from its origin, or begins anew.

        Args:
            folder: that of the run.
        """
        state, kept = self._end["state"], False
        if state in ("failed", "stopped"):
            from .story import checkpoint_of, origin_of, why_none  # noqa: PLC0415 - as above

            # after Ctrl-C the tables may not have been read, which a run on agents alone needs here
            records = self.records or RunRecords(folder, Run.read(folder), self._about)
            if not (kept := checkpoint_of(records) is not None) and self.records is None:
                records = replace(RunRecords.read(folder), outcome=self._about)
                kept = checkpoint_of(records) is not None
            if not kept and state == "stopped":
                _log.info("%s", why_none(records), extra=BRIEF)
            kept = kept or origin_of(records) is not None
        if state == "done" and (self.page is None or not self._is_told):
            # a full disk may have refused them
            kept_models = any(folder.glob("Node-[0-9]*-Retrieve/MODEL-*.model"))
            what = "its models are" if kept_models else "what could be written of it, without a model, is"
            _log.info("The run is done, and %s in %s.", what, shown(folder), extra=BRIEF if self._is_told else PLAIN)
        if self.page is not None and not (state == "done" and self._is_told):
            _log.info("report   %s", shown(self.page), extra=COPIED)
        if kept and (again := line_to_go_on()):
            _log.info("go on    %s", again, extra=COPIED)


@contextlib.contextmanager
def reported(run: RunFolder, spec: JobSpec, samples: Sequence[int], job: str) -> Iterator[Outcome]:
    """Keep how the run ends, well or not; `samples` are the numbers of training and test samples.

    A page that cannot be made is a warning: neither the job nor its end depends on it.
    """
    outcome = Outcome(spec, samples, run.path, run.about[MACHINE])
    at_end = contextlib.ExitStack()
    try:
        live = _live(run, spec, job, at_end, outcome) if spec.options.page else None
        try:
            # before the place of the report
            with telling(lambda: outcome.named if run.has_begun else NOT_BEGUN, _log):
                yield outcome
        except BaseException as error:
            with uninterrupted():
                outcome.ended_by(error)
            raise
        finally:
            try:
                # a job that was refused has no folder to write into
                if run.has_begun:
                    try:
                        with uninterrupted():
                            outcome.write(run.path)
                        outcome.write_page(run.path)
                    except KeyboardInterrupt:
                        _log.warning("Ctrl-C stopped the report; 'psgd report %s' writes it.", shown(run.path))
                        raise interrupted() from None
                    finally:
                        outcome.tell_how_it_goes_on(run.path)
            # RUN-8: neither the result nor the error of the job gives way to its page
            except Exception as error:  # noqa: BLE001  the files may hold anything
                if isinstance(error, OSError) and error.filename:
                    what = f"{shown(Path(error.filename))}: {error.strerror}"
                    remedy = f" When that is mended, 'psgd report {shown(run.path)}' writes it from what is there."
                else:
                    what, remedy = f"{type(error).__name__}: {error}", ""
                _log.warning("The report of the run could not be written (%s).%s", what, remedy)
            with spared("The last state of the live page"):
                if live is not None:
                    live.end = outcome.end
    finally:
        with spared("The end of the live page"):
            at_end.close()


def _times_of(simulated: Simulated) -> dict[str, Any]:
    # of a thousand nodes there are thousands of links, which no one changes: not copied one by one
    return {**asdict(replace(simulated, links={})), "links": simulated.links}


def _live(run: RunFolder, spec: JobSpec, job: str, at_end: contextlib.ExitStack, outcome: Outcome) -> LivePage:
    from .live import LivePage  # noqa: PLC0415 - for a job with `page`
    from .sources import source_of  # noqa: PLC0415

    source = source_of(spec.options.nodes, lambda: run.path if run.has_begun else None, job, spec.options.epoch)
    at_end.callback(source.close)
    differs = differing(settings_of_run(Door(run.path)))
    rows = [{"setting": name, "value": value} for name, value in differs.items()]
    about = {"title": spec.options.mission_title, "settings": rows, "model": outcome.about_model}
    page = at_end.enter_context(LivePage(source, about=about))
    _log.info("The page of this run, while it goes on: %s", page.address, extra=HEADLINE)
    return page


def _described(spec: JobSpec, samples: Sequence[int], folder: Path, machine: Mapping[str, str]) -> dict[str, Any]:
    given, model, name = spec.options, spec.model, type(spec.model).__name__
    settings = {name: _text(getattr(given, name)) for name, _ in options()}
    settings |= {name: told_path(settings[name], folder) for name in _PATHS if os.path.exists(settings[name])}
    nodes = ", ".join(f"{node}: {address}" for node, address in sorted(given.nodes.items()))
    train, test = samples
    return {
        "format": 1,
        "settings": {"data": f"{spec.data.name}, {spec.samples(train, test)}", **settings, "nodes": _short(nodes)},
        "fault": str(given.fault),
        "model": {"name": name, "summary": summarize(name, model.graph, model.store), "svg": draw(name, Diagram(model.graph))},
        "environment": {
            **versions(),
            "computes with": describe_blas(),
            "host of the submitter": platform.node(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            **machine,
        },
    }


def _of_nodes(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment with the software with which the nodes of a run computed, in place of that of the submitter."""
    told = read_identities(folder)
    if not told:
        return dict(environment)
    # those of the nodes say more than those of the submitter
    kept = {name: value for name, value in environment.items() if name not in (*versions(), "computes with")}
    return {**environment_of(told), **kept}


def _text(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return _short(", ".join(f"{_text(key)}: {_text(one)}" for key, one in value.items()))
    if isinstance(value, (list, tuple)):
        return _short(", ".join(map(_text, value)))
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."

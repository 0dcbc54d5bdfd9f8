"""`psgd runs`, `psgd show` and `psgd compare`: the runs of a directory, as their folders tell; nothing of them is imported."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from parallel_sgd.commands.output import EXIT_FAILED, EXIT_USAGE, tell
from rpc.submit.run_folder import LATEST, RUNS, Run, delete_run, find_run, none_in, runs_in, shown, unreadable_in
from rpc.support.console import columns_of, fitted, in_columns, side_by_side

from . import new_file
from .cli import Task

if TYPE_CHECKING:
    from parallel_sgd.run_page import RunRecords

_HEAD: Final = ("RUN", "BEGAN", "STATE", "FIGURES", "DIFFERS FROM THE DEFAULTS")
_GAP: Final = "  "
_NARROWEST: Final = 24  # of the last column, however narrow the terminal is
_CODES: Final = "Exit codes: 0 done, 1 a file cannot be written or deleted, 2 no run, or a wrong argument."


def runs(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd runs`: add its options to `parser`."""
    _add_directory(parser)
    parser.add_argument("--delete", nargs="+", metavar="RUN", help="delete these runs; links then lead to the newest one left")
    parser.add_argument("--force", action="store_true", help="delete also runs that have not ended, as far as can be seen")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.epilog = f"The newest comes first. A number is never given twice. {_CODES}"
    return _guarded(lambda given: _list(given) if given.delete is None else _delete(given))


def show(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd show`: add its options to `parser`."""
    parser.add_argument("run", nargs="?", default=LATEST, metavar="RUN", help=f"{_A_RUN} (default: the newest)")
    _add_directory(parser)
    parser.epilog = _CODES
    return _guarded(_show)


def compare(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd compare`: add its options to `parser`."""
    parser.add_argument("run", nargs="+", metavar="RUN", help=f"two or more; each {_A_RUN}")
    _add_directory(parser)
    parser.add_argument(
        "-o", "--output", type=new_file, default="compare.html", metavar="FILE", help="the page (default: %(default)s)"
    )
    parser.epilog = (
        "Prints what differs, and writes a page with the curves of all runs over epochs and seconds, whose path it prints. "
        f"{_CODES}"
    )
    return _guarded(_compare)


_A_RUN: Final = "a folder, the name of one in runs/, or a job's id"


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--directory", default=".", metavar="DIR", help="the directory with runs/ (default: the current one)")


def _guarded(task: Task) -> Task:
    def call(given: argparse.Namespace) -> int:
        try:
            if not os.path.isdir(given.directory):
                why = "it is a file" if os.path.lexists(given.directory) else "there is none"
                raise ValueError(f"--directory must be the directory with {RUNS}/, got {given.directory!r}: {why}")
            return task(given)
        except ValueError as error:  # RecordError is one
            sys.stderr.write(f"psgd: {error}\n")
            return EXIT_USAGE
        except OSError as error:
            sys.stderr.write(f"psgd: {error.filename}: {error.strerror}\n")
            return EXIT_FAILED

    return call


def _find(directory: str, name: str) -> Run:
    """Return the run that is meant: by its folder, its name in `runs/` or its job. Raises: ValueError."""
    # names first: a folder of the user's may have the name of a run
    known, unreadable = runs_in(Path(directory)), unreadable_in(Path(directory))
    if name == LATEST:
        if not known:
            raise ValueError(next(iter(unreadable.values()), none_in(Path(directory))))
        return known[0]
    if problem := unreadable.get(os.path.basename(os.path.normpath(name))):
        raise ValueError(problem)
    for run in known:
        if name in (run.path.name, run.job):
            return run
    with contextlib.suppress(OSError, ValueError):  # a name with a NUL
        path = os.path.realpath(name)
        # `latest` leads to the folder of a run, the links of nodes to folders in it
        for folder in (path, os.path.dirname(path)):
            for run in known:  # its files are shown as those of a run here
                if os.path.realpath(run.path) == folder:
                    return run
            run_here = Run.read(Path(folder))
            if run_here is not None:
                return run_here
    there = ", ".join(run.path.name for run in known[:5]) or "none"
    more = f" and {len(known) - 5} more, which 'psgd runs' lists" if len(known) > 5 else ""
    raise ValueError(
        f"'RUN' must be the folder of a run, its name in {RUNS}/, or a job's id, got {name!r}; there are: {there}{more}"
    )


def _read(run: Run) -> RunRecords:
    from parallel_sgd.run_page import RunRecords  # noqa: PLC0415 - with all that it imports, once it is needed

    records = RunRecords.read(run.path)
    # unlike the list, which goes on with the other runs
    if records.problems:
        raise ValueError(records.problems[0])
    return records


def _facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run that the list tells; a file that cannot be read is told as the problem of the run."""
    from parallel_sgd.record.defaults import differing  # noqa: PLC0415 - as above
    from parallel_sgd.record.door import Door, RecordError  # noqa: PLC0415
    from parallel_sgd.record.machine import SIMULATED  # noqa: PLC0415
    from parallel_sgd.record.outcome import read_outcome  # noqa: PLC0415
    from parallel_sgd.record.settings import settings_of_run  # noqa: PLC0415
    from parallel_sgd.record.simulated import is_time_only  # noqa: PLC0415

    door = Door(run.path)
    found: dict[str, Any] = {"run": run.path.name, "title": run.title, "job": run.job, "began": run.began / 1e9}
    try:
        outcome = read_outcome(door)
        platform = outcome.get("environment", {}).get(SIMULATED, "")
        told = {} if is_time_only(platform) else outcome.get("figures", {})
        # NaN is no JSON (RFC 8259)
        figures = {name: value if math.isfinite(value) else None for name, value in told.items()}
        differs = differing(settings_of_run(door))
    except RecordError as error:
        return {**found, "state": "unreadable", "figures": {}, "differs": {}, "problem": str(error)}
    return {**found, "state": outcome.get("state", "not ended"), "figures": figures, "differs": differs}


def _list(given: argparse.Namespace) -> int:
    found = [_facts(run) for run in runs_in(Path(given.directory))]
    # at the end: when they began is not known
    for name, problem in unreadable_in(Path(given.directory)).items():
        blank: dict[str, Any] = {"title": "", "job": "", "began": None, "figures": {}, "differs": {}}
        found.append({"run": name, **blank, "state": "unreadable", "problem": problem})
    return tell(
        given,
        {"runs": found},
        _table(found) if found else none_in(Path(given.directory)),
        done="The runs are listed",
    )


def _table(found: Sequence[Mapping[str, Any]]) -> str:
    # a run by its name, as all other commands take it
    names = {facts["job"]: facts["run"] for facts in found}
    # for eyes only: a pipe gets all of each run in its line
    columns = columns_of(sys.stdout)
    if not columns:
        return in_columns([_HEAD, *(_row(facts, names) for facts in found)])
    # settings that all have tell none from another: once, below the table
    read = [facts["differs"] for facts in found if "problem" not in facts]
    common = dict(each for each in read[0].items() if all(each in other.items() for other in read)) if read[1:] else {}
    below = [f"All of them: {_told(common, names)}"] * bool(common)
    own = [
        {**facts, "differs": {name: facts["differs"][name] for name in facts["differs"] if name not in common}}
        for facts in found
    ]
    rows = [_HEAD, *(_row(facts, names) for facts in own)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD) - 1)]
    room = columns - sum(widths) - len(_GAP) * len(widths)
    if room >= _NARROWEST:
        # the last column ends with the line
        lines = [in_columns([(*row[:-1], _cut(row[-1], room)) for row in rows]), *below]
    else:
        # below each run, where there is too little room beside the others
        lines = [*in_columns(rows, columns).splitlines(), *below]
    return "\n".join(fitted(line, sys.stdout) for text in lines for line in text.splitlines())


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 3)]}..."


def _row(facts: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, ...]:
    from parallel_sgd.record.numbers import figure  # noqa: PLC0415 - as above

    figures = _GAP.join(f"{name} {figure(math.nan if value is None else value)}" for name, value in facts["figures"].items())
    differs = _told(facts["differs"], names)
    began = "" if facts["began"] is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["began"]))
    # names of folders, titles and errors may hold control characters
    return (_clean(facts["run"]), began, facts["state"], _clean(figures), _clean(facts.get("problem", differs)))


def _told(settings: Mapping[str, Any], names: Mapping[str, str]) -> str:
    from parallel_sgd.record.settings import DATA  # noqa: PLC0415 - as above

    # a terminal shows the begin, and data seldom differ from run to run
    ordered = sorted(settings.items(), key=lambda item: item[0] in DATA)
    return _clean(", ".join(f"{name}={names.get(value, value) if name == 'resume' else value}" for name, value in ordered))


def _clean(text: str) -> str:
    from rpc.support.logs import clean  # noqa: PLC0415 - as above

    return str(clean(text))


def _delete(given: argparse.Namespace) -> int:
    # all are found first, and each once, so that a wrong name deletes nothing
    chosen = [_find(given.directory, name) for name in dict.fromkeys(given.delete)]
    for run in chosen:  # all of them, before the first one goes
        # its files do not tell a run that was killed from one that goes on, whose folder must stay
        if not given.force and _facts(run)["state"] in ("not ended", "left"):
            raise ValueError(f"{shown(run.path)} has not ended, as far as its files tell: --force deletes it all the same")
    for run in chosen:
        delete_run(run)
    names = [run.path.name for run in chosen]
    return tell(given, {"deleted": names}, f"Deleted: {', '.join(names)}.", done="The runs are deleted")


def _show(given: argparse.Namespace) -> int:
    from parallel_sgd.record.door import Door  # noqa: PLC0415
    from parallel_sgd.record.files import PAGE  # noqa: PLC0415
    from parallel_sgd.record.history import COUNTED, EPOCH  # noqa: PLC0415 - as above
    from parallel_sgd.record.machine import SIMULATED  # noqa: PLC0415
    from parallel_sgd.record.settings import settings_of_run  # noqa: PLC0415
    from parallel_sgd.record.simulated import is_time_only  # noqa: PLC0415
    from parallel_sgd.record.summary import epoch_line  # noqa: PLC0415
    from parallel_sgd.run_page.data import best_of, crowd_of, effort_in, platform_of  # noqa: PLC0415
    from parallel_sgd.run_page.story import events  # noqa: PLC0415

    run = _find(given.directory, given.run)
    records, facts = _read(run), _facts(run)
    if "problem" in facts:
        raise ValueError(facts["problem"])
    history = records.history
    effort = effort_in(records)
    platform, best = platform_of(records), best_of(records, history)
    lines = [f"{run.path.name}: {facts['state']}, began {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(facts['began']))}"]
    lines += [f"job      {run.job}"]
    if facts["differs"]:
        lines += ["settings that differ from the defaults:"]
        before = find_run(run.path.parent, facts["differs"].get("resume", ""))
        differs = facts["differs"] | ({} if before is None else {"resume": before.path.name})
        lines += [f"  {line}" for line in in_columns(list(differs.items())).splitlines()]
    # none for a run without an epoch
    last = [
        {name: value for name, value in row.items() if name not in COUNTED}
        for row in history.rows[-1:]
        if not is_time_only(platform)
    ]
    # of all that were asked for, where the job file tells; callbacks may have ended it before
    asked = settings_of_run(Door(run.path)).get("epoch", "")
    epochs = int(asked) if asked.isdecimal() else 0
    lines += [epoch_line(row, max(int(row[EPOCH]), epochs)) for row in last]
    lines += [f"best     {best}"] if best is not None else []
    lines += [f"{SIMULATED} {platform}: virtual seconds, not measured"] if platform else []
    lines += [f"clients  {history.rounds[-1]['ends']:.6g} s of their clock"] if history.rounds else []
    lines += [f"time     {effort.shares}"] if effort is not None else []
    if effort is not None and effort.workers > 1:
        lines += [f"         {effort.told(crowd_of(records) is not None)}"]
    if not records.went_well:
        for event in events(records):
            lines += [event.heading, *(f"  {question}: {answer}" for question, answer in event.answers)]
    # paths are to be copied, so a narrow terminal does not break their lines
    paths = [f"report   {shown(run.path / PAGE)}"] if (run.path / PAGE).is_file() else []
    # no link: the line must name a file of this run
    models = sorted(path for path in run.path.glob("Node-*-Retrieve/MODEL-*.model") if not path.is_symlink())
    paths += [f"model    {shown(models[0])}"] if models else []
    told = [fitted(_clean(line), sys.stdout) for line in lines]
    sys.stdout.write("".join(f"{line}\n" for line in [*told, *map(_clean, paths)]))
    return 0


def _compare(given: argparse.Namespace) -> int:
    from parallel_sgd.run_page.compare import compare_page, differences, figures_of, rows_of  # noqa: PLC0415 - as above
    from rpc.support.files import publish  # noqa: PLC0415

    # by folder: a run under two names is no two runs
    chosen = {run.path.resolve(): run for run in (_find(given.directory, name) for name in given.run)}
    if len(chosen) < 2:
        raise ValueError(f"'RUN' must be two or more runs, got {', '.join(map(repr, given.run))}")
    # before the page is written: one that cannot be read leaves the old page as it is
    records = [_read(run) for run in chosen.values()]
    rows: list[tuple[str, ...]] = [("", *(each.folder.name for each in records))]
    rows += [(name, *values) for name, values in differences(records).items()]
    rows += rows_of([figures_of(each) for each in records])
    sys.stdout.write(side_by_side([tuple(map(_clean, row)) for row in rows], columns_of(sys.stdout)) + "\n")
    path: Path = given.output
    # a page to hand on: for others to read, and whole or not at all
    publish(path, compare_page(records), 0o644)
    sys.stdout.write(f"page: {shown(path)}\n")
    return 0

"""Commands that train a run again from its `job.toml`, verify epochs of it, and sign it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nn.dataset.interface import AbsDataset
from nn.dataset.plan.kinds import LeftOut
from nn.dataset.plan.plan import Plan
from nn.threads import has_bits, limited_to_one_thread
from rpc.agent.kernel_sets import runnable
from rpc.job import BITS, PORTABLE
from rpc.submit import find_run
from rpc.support.logs import QUIET, clean_text, verbosity
from rpc.support.temporary import TemporaryFolder

from ..job import ParallelSGD
from ..nodes import in_process
from ..options.checks import positive
from ..options.job_options import options as known_options
from ..options.names import guarded
from ..profiles import FixedBlocks
from ..record.certificate import Computed, contradictions, other_identities
from ..record.code import CodeJudge
from ..record.contents import failures_of, has_common_tables, left_by_others, misplaced, unlisted
from ..record.door import Door, RecordError
from ..record.files import JOB_FILE
from ..record.hashes import sha256_of
from ..record.identity import KERNELS, THREADS, parts_of
from ..record.job_file import JobFile
from ..record.kept_data import load_kept
from ..record.keys import PublicKey, SigningKey
from ..record.outcome import read_outcome
from ..record.paths import as_seen
from ..record.run import RunManifest
from ..record.settings import short
from ..record.signing import Signature, sign_run, signature_of
from ..record.simulated import cut_short
from ..record.tables import read_hashes, read_identities
from ..record.verification import changed_data, changed_settings, damaged_checkpoints, damages, nearest
from ..record.weight_hashes import Epochs, first_difference
from .legs import Leg, begins_anew, legs_of, state_behind
from .nodes import launcher_from
from .options import load_model, make_dataset, make_transform, settings_of
from .output import EXIT_FAILED, EXIT_NODE_LOST, EXIT_OK, EXIT_USAGE, JOB_DONE, folder_of, tell
from .submit import nodes_of, result_data, train

# where to compute decides nothing about the bits
_UNTOUCHED: Final = ("local", "worker_count", "launch", "workers")
_IN_WORDS: Final = {"blocks": "number of blocks", "data_sha256": "data set"}
_GROWS: Final = frozenset({"epoch", "resume"})  # the options with which a run goes on with another one
#: Sentences for a verdict that cannot be printed, by exit code.
_VERDICTS: Final = {
    EXIT_OK: "The run is verified",
    EXIT_FAILED: "The run has failed verification",
    EXIT_USAGE: "The run could not be verified here",
}
_LONG: Final = 60  # characters of a data set with its arguments


class _OtherData(ValueError):
    """Error for a data set that is not the one that the run had; the message tells where."""


def run(given: argparse.Namespace, defaults: Mapping[str, Any]) -> int:
    """Train the job of the file `given.job_file`, with the other given options in place of those of the file; return the exit
    code.

    Args:
        given: the options that stand on the command line.
        defaults: the defaults of all options.

    Raises: ValueError for a file that does not do, each error of `ParallelSGD.parallel`.
    """
    file = JobFile.read(Path(given.job_file))
    options = _merged(file, vars(given), defaults)
    # one of the file would strike again, at the very batch that comes next
    if "resume" in given and "fault" not in given:
        options.fault = defaults["fault"]
    judge = _judge_of(file, given, vars(given))
    # a script is code, though no class names it (RUN-6)
    _judge_discovery(judge, file, options)
    with guarded(judge), _told_of_file(file, vars(given)):
        data = _same_inputs(file, options, vars(given))
    # the blocks of the run, dealt to the workers that there are, unless others are asked for
    dealt = {} if {"assignment_type", "redundancy"} & vars(given).keys() else _dealt(file, _count(file, options))
    # kernels and threads decide about the last bits: those of the run, unless others are asked for
    if not {"bits", "blas_threads"} & vars(given).keys():
        options.bits = _bits_of(file, here=options.workers is None and options.launch is None)
        options.blas_threads = str(_threads_of(file, options.blas_threads))
    # before training: a run into the same directory must not change what is compared
    manifest, before = _manifest_of(file.path.parent), read_hashes(file.path.parent)
    left_out = _left_out(file.path.parent)
    with guarded(judge), _told_of_file(file, vars(given)):
        result = train(options, data, **dealt)
    made = next((Path(path) for paths in result.files.values() for path in paths), None)
    overridden = [_flag(name) for name in vars(given) if name in _decisive()]
    others = [] if made is None else other_identities(file, read_identities(made.parent.parent))
    if left_out:
        others.append(f"a simulation with {left_out}")
    if manifest is not None:
        others += changed_settings(file.path, manifest)
    after = {} if made is None else read_hashes(made.parent.parent)
    said, equal = _compared(file, before, after, [*overridden, *others])
    content = {**result_data(result), "repeats": {"equal": equal, "said": said}}
    code = EXIT_NODE_LOST if result.failures else EXIT_OK
    return tell(options, content, f"{result}\n{said}", code, done=JOB_DONE, place=folder_of(result.files))


def _left_out(run: Path) -> str:
    """Return the part of the computation that the simulation of a run left out; "" where it was none, or computed all."""
    try:
        told = read_outcome(Door(run)).get("simulated", {})
    except RecordError:
        return ""  # a run is trained again without its outcome, too
    return cut_short(told.get("platform", ""))


def _manifest_of(run: Path) -> RunManifest | None:
    """Read the manifest of a run; None of one that has not ended well. Raises: RecordError for a file that is something
    else.
    """
    try:
        return RunManifest.read(run)
    except RecordError:
        raise
    except ValueError:
        return None


def _judge_of(file: JobFile, given: argparse.Namespace, instead: Collection[str]) -> CodeJudge:
    """Return the judge of the code that a job file names; `instead` are the options that are given in place of those of the
    file.
    """
    flags = {about.flag.names[0]: name for name, about in known_options() if about.flag is not None}
    return CodeJudge(file, instead, flags, allow=given.allow_code, refuse=given.no_code)


def _judge_discovery(judge: CodeJudge, file: JobFile, options: argparse.Namespace) -> None:
    """Check that the script that a job file names may run: any file but a list of nodes is one. Raises: CodeRefused."""
    script = file.options.get("discovery")
    # a list of nodes is data
    if script and script == options.discovery and os.path.isfile(script) and not script.endswith(".json"):
        judge.judge(script, "--discovery", lambda: [Path(script).absolute()])


def _merged(file: JobFile, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> argparse.Namespace:
    """Merge options: a given one goes before that of the file, and both before the default of the command.

    Raises: ValueError for a part that only a program can make.
    """
    for name, what in file.unnamed.items():
        if name not in given:
            way = f"Give {_flag(name)}, or run" if name in defaults and "job_file" in given else "Run"  # verify takes none
            raise ValueError(f"The job file {as_seen(file.path)} has no '{name}': it was {what}. {way} the program again.")
    texts = {"dataset": file.dataset, "transform": file.transform}
    told = {**file.options, **{name: text for name, text in texts.items() if text is not None}, "model": str(file.model)}
    options = argparse.Namespace(**{**defaults, **told, **given})
    # without a word on where to compute, on this machine with as many workers as the run had
    if not any(name in given for name in _UNTOUCHED):
        options.local = file.workers
    options.ps = options.ps or file.server
    return options


@contextlib.contextmanager
def _told_of_file(file: JobFile, given: Mapping[str, Any]) -> Iterator[None]:
    """Tell an error of an option that stands in the file by the option's name there."""
    places = {**{name: f"options.{name}" for name in file.options}, "dataset": "data.dataset", "transform": "data.transform"}
    try:
        yield
    except (TypeError, ValueError) as error:
        for name in places.keys() - given.keys():
            for called in (f"{_flag(name)} ", f"'{name}' ", f"parallel() '{name}' "):
                if str(error).startswith(called):
                    text = str(error).removeprefix(called)
                    raise ValueError(f"The job file {as_seen(file.path)} cannot be used: '{places[name]}' {text}") from error
        raise


def _decisive() -> set[str]:
    """Return the options that have a part in the bits."""
    named = {name for name, about in known_options() if about.flag is not None and about.flag.decides}
    return named | {"model", "dataset", "transform", "learn_rate"}


def _flag(name: str) -> str:
    flags = {field: about.flag.names[0] for field, about in known_options() if about.flag is not None}
    return flags.get(name, f"--{name.replace('_', '-')}")


def _same_inputs(file: JobFile, options: argparse.Namespace, given: Mapping[str, Any]) -> AbsDataset:
    """Return the data set, once it and the model are those that the run had, unless others are given.

    Raises: ValueError naming the part that is another one, `_OtherData` among them.
    """
    if "model" not in given:
        _check_model(file)
    if "dataset" in given or file.kept is None:
        data, told = make_dataset(options.dataset), options.dataset
    else:
        told = file.kept.file
        try:
            data = load_kept(file.path.parent / told, file.kept.sha256)
        except (OSError, ValueError) as error:
            raise _OtherData(f"The samples {told} of the run are damaged: {error}") from error
    # data of one's own is no claim about the run
    if "dataset" in given:
        return data
    told = told if len(told) <= _LONG else told.partition(":")[0]
    try:
        changed = changed_data(file, data)
    except ValueError as error:
        raise _OtherData(f"The data set {told} of the run is damaged: {error}") from error
    if changed:
        raise _OtherData(f"The data set {told} is not the one of the run: {changed}.{_columns_kept(file, data, options)}")
    return data


def _columns_kept(file: JobFile, data: AbsDataset, options: argparse.Namespace) -> str:
    """Return the way on for a run of a release that took row numbers for a feature, as a sentence; else ""."""
    plan = getattr(data, "plan", None)
    left = [column.name for column in plan.columns if isinstance(column, LeftOut)] if isinstance(plan, Plan) else []
    # a type, a shape and checksums
    shape = file.rows.get("train_x", "").split(" ")[1:2]
    if not left or not shape or not shape[0].endswith(f"x{len(getattr(data, 'columns', ())) + len(left)}"):
        return ""
    given = short("dataset", options.dataset)
    took = ", ".join(map(repr, left))
    return f" An older release took {took} for a feature, as index=None does: 'psgd run RUN --dataset \"{given},index=None\"'."


def _check_model(file: JobFile) -> None:
    if sha256_of(file.model) != file.model_sha256:
        raise ValueError(
            f"The model {as_seen(file.model)} is not the one that the run began with: {as_seen(file.path)} has another SHA-256."
        )


def _first(file: JobFile) -> JobFile:
    """Return, for a run that went on with another one, the file of that one, and so on, as far as they lie beside it.

    Raises: ValueError where one had other options, so that one run from the start gives other bits.
    """
    first, seen = file, {file.path}
    # as far back as runs lie here: only from the first weights on is everything computed
    while job := first.options.get("resume"):
        earlier = find_run(file.path.parent.parent, str(job))
        # a circle of runs would go on for ever
        if earlier is None or (found := JobFile.read(earlier.path)).path in seen:
            break
        others = {name for name in _decisive() - _GROWS if found.options.get(name) != file.options.get(name)}
        others |= {name for name in ("blocks", "data_sha256", "transform") if getattr(found, name) != getattr(file, name)}
        if others:
            told = ", ".join(sorted(_IN_WORDS.get(name, name) for name in others))
            raise ValueError(
                f"The run cannot be computed again from the start: it went on with {as_seen(earlier.path)}, which differs in "
                f"{told}. Give an --epoch that is behind a checkpoint of the run, if its folder has one."
            )
        first = found
        seen.add(first.path)
    _check_model(first)
    return first


def _count(file: JobFile, options: argparse.Namespace) -> int:
    if options.launch is not None:
        number = str(options.launch).partition(":")[2]
        return int(options.worker_count or (number if number.isdecimal() else file.workers))
    return int(options.local or options.worker_count or 1)


def _dealt(file: JobFile, workers: int) -> dict[str, Any]:
    """Return how `workers` share the blocks of the run, so that a batch has the same bits.

    Raises: ValueError where they cannot.
    """
    if workers == file.workers:
        return {}
    blocks = file.blocks
    # so many workers hold whole blocks only as copies of each other
    if workers > blocks and workers % blocks:
        raise ValueError(
            f"A batch of the run has {blocks} blocks, so its bits are those of 1 to {blocks} workers or of a multiple of "
            f"{blocks}, got {workers}; with --block-assignment it is another run"
        )
    return {"assignment_type": FixedBlocks(blocks), "redundancy": max(workers // blocks, 1)}


def _compared(file: JobFile, before: Epochs, after: Epochs, others: list[str]) -> tuple[str, bool]:
    run = as_seen(file.path.parent)
    common = sorted(before.keys() & after.keys())
    if not common:
        return f"There is nothing of {run} to compare the weights with.", False
    differs = first_difference(before, after)
    if differs is None:
        return f"The weights equal those of {run} after each of {len(common)} epoch{'s' if len(common) > 1 else ''}.", True
    epoch, variable, _ = differs
    why = f" Other than then: {', '.join(others)}." if others else ""
    return f"The weights are not those of {run}, from epoch {epoch} on ({variable}).{why}", False


def verify(given: argparse.Namespace, defaults: Mapping[str, Any]) -> int:
    """Compare the files of the run with its manifest and each other, compute epochs again and compare them with the claims of
    the folder.

    Args:
        given: the options that stand on the command line.
        defaults: the defaults of all options.

    Returns 0 if all is equal, 1 if a claim is wrong, 2 if the epochs cannot be computed here as the run computed them.

    Raises: ValueError for a folder that is no run, or one with epochs that cannot be computed again.
    """
    folder = Path(given.run).resolve()
    if not folder.is_dir():
        raise ValueError(
            f"The run must be a folder, such as runs/latest, or the name of one in runs/, and there is none at {given.run}."
        )
    signer = None if given.signer is None else PublicKey.read(Path(given.signer), "--signer")
    manifest = RunManifest.read(folder)
    # before anything is computed: minutes are not spent on a run that is not what it says
    signature = signature_of(folder, manifest, signer)
    if found := _false_by_itself(folder, manifest):
        return _refuted(given, signature, found)
    if signature.state == "bad" or (signer is not None and signature.state != "good"):
        return _tell(given, signature, {"equal": None}, "Nothing was computed again.", EXIT_FAILED)
    file = JobFile.read(folder)
    # writers would write again, and hosts that come decide nothing about the bits; all else comes from the file
    without: dict[str, Any] = {"writers": [], **({"discovery": None} if "discovery" in file.unnamed else {})}
    options = _merged(file, without, {**defaults, "json": given.json, "quiet": True, "verbose": False})
    epochs = read_hashes(folder)
    last = max(epochs, default=0)
    until = _last_asked(file, last, given.epoch)
    judge = _judge_of(file, given, ())
    with guarded(judge):
        settings = settings_of(options)
    _check_repeatable(settings)
    if left_out := _left_out(folder):
        raise ValueError(
            f"No epoch of the run can be computed again: it was simulated with {left_out}, so its weights are those of no "
            f"training."
        )
    epochs_asked = int(settings["epoch"])
    if last != epochs_asked and not settings["callbacks"]:
        return _refuted(
            given, signature, [f"the tables of the weights (WH-*.csv) have {last} epochs, and the options say {epochs_asked}"]
        )
    try:
        with guarded(judge):
            data = _same_inputs(file, options, {})
    except _OtherData as error:
        return _refuted(given, signature, [str(error)])
    count = file.workers if given.worker_count is None else positive("worker_cnt", given.worker_count)
    workers = _count(file, given) if given.launch else given.local or count
    for name in ("launch", "local", "workers", "key_file"):
        setattr(options, name, getattr(given, name))
    # options without a part in the bits, such as faults and writers, are left out
    settings = {name: value for name, value in settings.items() if name in _decisive() or name == "wait"}
    # with callbacks the same ones end training in the same epoch
    settings["epoch"] = epochs_asked if until == last else until
    settings |= {"checkpoint_every": "epoch", "keep_every": 1, "resume": None, "verbose": QUIET}
    inside = given.local is None and given.workers is None and given.launch is None
    bits = _bits_of(file, here=inside or given.local is not None)
    settings["blas_threads"] = _threads_of(file, settings["blas_threads"])
    # the kernels of a process are chosen when it starts, so another process is needed
    if inside and not _has_bits_here(bits, settings["blas_threads"]):
        options.local, inside = workers, False  # processes of their own have the kernels of the run
    settings["bits"] = bits
    with TemporaryFolder("verify") as place, verbosity(QUIET):
        begin = None if given.epoch is None else nearest(folder, epochs, until, workers, _server_keeps(file, settings))
        # the checkpoint of a worker there need not be the state with which it went on
        if begin is not None and begins_anew(folder, begin.epoch):
            begin = None
        first = _first(file) if begin is None else file
        with guarded(judge):
            transform = make_transform(options.transform)
        job = ParallelSGD(load_model(str(first.model)), data, transform)
        if begin is not None:
            settings["resume"] = begin.copy(Path(place, "begin"))
        # checkpoints have their own hashes: what is damaged is not compared
        damaged = list(damaged_checkpoints(folder, epochs))
        unseen = str(first.options.get("resume", "")) if begin is None else ""
        # Runs that go on with each other are at hand, and none of them can say so truly. A checkpoint that has changed is wrong
        # whatever the run began with.
        if unseen and (damaged or find_run(folder.parent, unseen) is not None):
            unseen = ""
        asked = any(getattr(given, name) is not None for name in ("worker_count", "local", "launch"))
        start = 0 if begin is None else begin.epoch
        # of a run that is not at hand nothing tells which blocks the workers of its parts had
        legs = [Leg.whole(start, until, workers)] if unseen else legs_of(folder, start, until, workers, asked=asked)
        every, found = list[Computed](), list[str]()
        for number, leg in enumerate(legs):
            own = {**settings, **_dealt(file, leg.workers), "directory": Path(place, str(number))}
            following = legs[number + 1] if leg is not legs[-1] else None
            if following is not None:
                # within an epoch its checkpoint stays, too
                further = {"epoch": leg.end.epoch + 1, "keep_every": leg.end} if leg.end.batch else {"epoch": leg.end.epoch}
                own |= further
            options.worker_count = leg.workers
            options.local = None if options.local is None else leg.workers
            here = in_process(leg.workers, options.ps)
            # with tables of its own for each worker, where the run has them
            if leg.workers == file.workers:
                here.shared = has_common_tables(folder, str(file.options.get("mission_title", "")))
            with here if inside else nodes_of(options, given.launch and launcher_from(options)) as nodes:
                result = job.parallel(nodes, **own)
            again = Path(place, str(number), "runs", "latest")
            last_leg = following is None
            computed = Computed(
                folder,
                again,
                result,
                leg.begin.epoch,
                leg.end.epoch,
                leg.workers,
                unseen,
                last_leg,
                leg.begin,
                None if last_leg else leg.end,
            )
            every.append(computed)
            # of a leg within an epoch there is nothing to compare
            if last_leg or leg.end.epoch > leg.begin.epoch:
                found += computed.differences(file, epochs)
            if following is not None:
                state = state_behind(again, leg, following.owner)
                if state is None and not inside and given.local is None:
                    raise ValueError(
                        f"Training went on after {leg.end} with the state of one worker, which agents do not give away: verify "
                        f"the run without --workers and --launch."
                    )
                if state is None:
                    found.append(
                        f"training went on after {leg.end} with a state of node {following.owner}, and none was computed there"
                    )
                    break
                settings["resume"] = state
        wrong = [*_unnamed(dict.fromkeys(found), damaged), *damaged]
        others = other_identities(file, read_identities(computed.again))
        beside = {
            "What callbacks or writers have left was not computed again": left_by_others(manifest),
            "Checkpoints within an epoch, or of other workers, were not computed again": [
                name for each in every for name in each.not_computed(epochs)
            ],
            "Tables of steps and packets, which depend on more than the job, were not computed again": computed.unproven_tables(
                file, epochs
            ),
            "What a simulation tells was not computed again": computed.unproven_times(),
            "Nodes failed in this run, and may have left fewer files": failures_of(folder),
        }
        # before the computation is gone
        return _judge(given, signature, file, every, wrong, others, epochs, beside)


def _false_by_itself(folder: Path, manifest: RunManifest) -> list[str]:
    """Return how the files of a run contradict its manifest and each other, which needs no computation."""
    found = [*damages(folder, manifest), *unlisted(manifest)]
    # the settings say which files there must be: they are looked at only once types and bounds are those of a job file (RUN-9)
    if not changed_settings(folder / JOB_FILE, manifest):
        try:
            JobFile.read(folder)
        except ValueError:
            # a file that the job needs and that is gone is told as such
            if found:
                return found
            raise
        found += misplaced(folder, manifest)
    if not any(text.startswith(JOB_FILE) for text in found):
        found += _unnamed(contradictions(folder, manifest), found)
    return found


def _last_asked(file: JobFile, last: int, asked: int | None) -> int:
    """Return the epoch up to which a run is computed again.

    Args:
        file: the job file of the run.
        last: the last epoch that the tables of the weights have.
        asked: `--epoch`, or None for the last one.

    Raises: ValueError where there is no such epoch, or one behind those of the job.
    """
    most = file.options.get("epoch")
    if most is not None and last > most:
        raise ValueError(
            f"The tables of the weights (WH-*.csv) have an epoch {last}, and 'options.epoch' of {as_seen(file.path)} is {most}."
        )
    until = last if asked is None else asked
    if not 1 <= until <= last:
        raise ValueError(f"--epoch must be one of the run's epochs, 1 to {last}, got {until}.")
    return until


def _unnamed(found: Iterable[str], known: list[str]) -> list[str]:
    """Return the findings about files of which none is known yet."""
    return [
        text
        for text in found
        if not any(text.startswith(each.partition(" was ")[0].partition(" cannot ")[0]) for each in known)
    ]


def _refuted(given: argparse.Namespace, signature: Signature, found: list[str]) -> int:
    return _tell(given, signature, {"equal": False, "damaged": found}, "\n".join(map(clean_text, found)), EXIT_FAILED)


def _tell(given: argparse.Namespace, signature: Signature, content: Mapping[str, Any], words: str, code: int) -> int:
    """Tell the findings about the run itself and, apart from them, those about its signature; return the exit code."""
    said = f"{words}\n{clean_text(signature.said)}"
    return tell(given, {**content, "signature": signature.data()}, said, code, done=_VERDICTS[code])


def sign(given: argparse.Namespace) -> int:
    """Sign the run `given.run` with the key in the file `given.key`; return the exit code.

    Raises: ValueError for a key that does not do, for a folder that is no run, and for one that differs from its manifest.
    """
    key = SigningKey.read(Path(given.key), "--key")
    file = sign_run(Path(given.run).resolve(), key)
    said = f"Signed by {key}: {file}"
    return tell(given, {"signature": str(file), "key": key.fingerprint}, said, done="The run is signed", place=file)


def _bits_of(file: JobFile, *, here: bool) -> str | None:
    """Return the bits to ask for, so that workers compute as those of the run: those of its option, or its nodes' kernels.

    None where these cannot be asked for, or not of workers of this machine (`here`): the result then tells the differences.
    """
    kernels = {parts_of(text).get(KERNELS, "") for texts in file.nodes.values() for text in texts}
    only = next(iter(kernels)) if len(kernels) == 1 else None
    known = {PORTABLE, *runnable()} if here else BITS
    return file.options.get("bits") or (only if only in known else None)


def _threads_of(file: JobFile, asked: int | str) -> int | str:
    """Return the BLAS threads of each process of the run, in place of a number that each host decides on; `asked` where its
    nodes had different ones, or do not tell."""
    told = {parts_of(text).get(THREADS, "") for texts in file.nodes.values() for text in texts}
    only = next(iter(told), "") if len(told) == 1 else ""
    return int(only) if asked == "auto" and only.isdecimal() and int(only) > 0 else asked


def _has_bits_here(bits: str | None, threads: int | str) -> bool:
    """Tell if workers inside this process compute as those of the run."""
    with limited_to_one_thread():
        return threads == 1 and (bits is None or has_bits(bits))


def _other_workers(file: JobFile, every: Sequence[Computed], epochs: Epochs) -> str:
    """Return how many workers the run had, where others were asked for and its codec may give them other bits; else ""."""
    run, start, until = every[0].run, every[0].start, every[-1].until
    # a codec that the product chooses is exact, and a checkpoint that has changed is wrong on any number of workers
    if "codec" not in {*file.options, *file.unnamed} or any(damaged_checkpoints(run, epochs)):
        return ""
    had = [leg.workers for leg in legs_of(run, start, until, file.workers, asked=False)]
    if had[: len(every)] == [each.workers for each in every] or every[0].unseen:
        return ""
    numbers = " and ".join(dict.fromkeys(map(str, had)))
    return f"{numbers} worker{'s' * (numbers != '1')}"


def _judge(
    given: argparse.Namespace,
    signature: Signature,
    file: JobFile,
    every: Sequence[Computed],
    wrong: list[str],
    others: list[str],
    epochs: Epochs,
    beside: Mapping[str, list[str]],
) -> int:
    computed, first = every[-1], every[0].start + 1
    last, workers = computed.until, computed.workers
    which = f"Epoch {last}" if first == last else f"Epochs {first} to {last}"
    begin = f"the checkpoint after epoch {every[0].start}" if every[0].start else "the start"
    numbers = " and ".join(dict.fromkeys(str(each.workers) for each in every))
    how = f"computed again from {begin} on {numbers} worker{'s' if numbers != '1' else ''}"
    content = {"equal": not wrong, "epochs": [first, last], "from": every[0].start, "workers": workers}
    lost = [
        f"After {each.begun} the run went on with the state of one worker, without what others had remembered, and so did the "
        f"computation."
        for each in every[1:]
    ]
    if not wrong:
        claims = ", the models and the figures of its end" if last == max(epochs) else ""
        said = [
            f"{which}, {how}: all {len(epochs[last])} variables equal those of the run after each epoch.",
            *lost,
            f"Its evaluations{claims} are equal, too: the folder agrees with itself.",
        ]
        said += [f"{what}: {', '.join(those)}." for what, those in beside.items() if those]
        if unproven := [name for what, names in beside.items() if what.endswith("not computed again") for name in names]:
            content["not computed"] = unproven
        return _tell(given, signature, content, clean_text("\n".join(said)), EXIT_OK)
    why = ""
    if "resume" in file.options and not every[0].start and not computed.unseen:
        why += f" It went on with {file.options['resume']}, which may have begun otherwise."
    content |= {"damaged": wrong, "others": others}
    # wrong on other machines shows nothing: neither guilty nor proven
    said = [f"{which}, {how}:", *wrong, *lost, why.strip()]
    if others:
        content["equal"] = None
        said.append(
            f"But the run was computed with {', '.join(others)}: this does not show that the run is false. Verify it by "
            f"workers that compute as it did (--workers)."
        )
    anew = computed.is_untold()
    if anew:
        content["equal"] = None
        said.append(
            "But the run went on, by a release that did not record what single workers had remembered and lost: this does not "
            "show that the run is false."
        )
    elsewhere = _other_workers(file, every, epochs)
    if elsewhere:
        content["equal"] = None
        said.append(
            f"But the run had {elsewhere}, and only codecs that are exact, such as Plain, give equal bits on others: this does "
            f"not show that the run is false. Verify it without a number of workers."
        )
    if computed.unseen:
        content["equal"] = None
        said.append(
            f"But it went on with {computed.unseen}, which is not beside it and may have had other blocks, data or settings: "
            f"this does not show that the run is false. Put the folder of that run beside it."
        )
    code = EXIT_USAGE if others or anew or elsewhere or computed.unseen else EXIT_FAILED
    return _tell(given, signature, content, clean_text("\n".join(filter(None, said))), code)


def _server_keeps(file: JobFile, settings: Mapping[str, Any]) -> bool:
    """Tell if a parameter server may have remembered something, so that without its checkpoint no epoch is the same."""
    return file.server and any(settings[name] is not None for name in ("codec", "ps_codec"))


def _check_repeatable(settings: Mapping[str, Any]) -> None:
    """Refuse a run with a result that depends on the order in which packets arrive. Raises: ValueError."""
    sync = settings["sync_type"]
    # what has arrived is taken: no second run has the same order
    if sync.staleness:
        raise ValueError(
            f"No epoch of the run can be computed again: under {sync.__name__} a worker takes what has arrived, so its result "
            f"depends on who was how fast."
        )
    for name in ("codec", "ps_codec"):
        chosen = settings[name]
        for kind in chosen.values() if isinstance(chosen, dict) else [chosen] if chosen is not None else []:
            if kind.traits.asynchronous or kind.traits.by_arrival:
                raise ValueError(
                    f"No epoch of the run can be computed again: the codec {kind.__name__} makes its result of what arrives "
                    f"first, so the last bits depend on who was how fast."
                )

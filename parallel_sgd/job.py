"""Training job: a model, a data set and a transform, trained in parallel on the nodes that the user names."""

from __future__ import annotations

import inspect
import logging
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from network.errors import NetworkError
from network.names import did_you_mean
from nn import arguments
from nn.dataset.interface import AbsDataset, Arrays, load_checked
from nn.dataset.transforms.abstract import AbsTransformer
from nn.extension import answering, checked_call, is_ours, listed, unfit
from nn.model import Model
from rpc import NodeBusy
from rpc.submit import SHRINK, Retry, refuse_busy, telling, uninterrupted
from rpc.support.console import interrupts_put_off
from rpc.support.logs import SUBMIT_LOGGER, attach_console, get_logger, has_short_console, is_quiet, verbosity
from rpc.user_code import users_trace

from .driver.remote_run import run_on_agents
from .errors import NOT_BEGUN, JobFailed
from .nodes import InProcessNodes, LocalNodes
from .options.compatibility import check_data
from .options.job_options import MEANT, NODES, ON_CPUS, JobOptions, options
from .options.make_spec import make_spec, planned_faults, with_data, with_population
from .options.spec import JobSpec
from .record.call import asked_by, call_of
from .record.history import EPOCH
from .record.run import JobResult, Trained, write_run_manifest
from .record.spared import spared

if TYPE_CHECKING:
    from .writers.live import Followers

#: Nodes whose addresses the log has.
_MOST_LISTED: Final = 16
# methods of other libraries that train
_TRAINS: Final = ("fit", "train", "run", "compile", "fit_generator", "train_on_batch")
P = ParamSpec("P")
Job = TypeVar("Job")
Result = TypeVar("Result")
_log = get_logger(SUBMIT_LOGGER)


def called_with(
    make: Callable[P, JobOptions],
) -> Callable[[Callable[[Job, JobOptions], Result]], Callable[Concatenate[Job, P], Result]]:
    """Have a method that takes `JobOptions` be called with their fields, which its signature and its docstring tell.

    So an option is stated once; `P` gives editors and type checkers the same signature as `help()` shows.
    """

    def decorate(method: Callable[[Job, JobOptions], Result]) -> Callable[Concatenate[Job, P], Result]:
        # the signature that editors show is that of the fields, with `self` before them
        itself, _ = (signature := inspect.signature(method)).parameters.values()
        signature = signature.replace(parameters=[itself, *inspect.signature(JobOptions).parameters.values()])

        @wraps(method)
        def call(self: Job, /, *args: P.args, **given: P.kwargs) -> Result:
            try:
                bound = signature.bind(self, *args, **given).arguments
            except TypeError:
                unknown = next((name for name in given if name not in signature.parameters), None)
                if unknown is None:
                    problem = unfit(f"{method.__name__}()", [*signature.parameters.values()][1:], args, given)
                    if not args and "nodes" not in given:
                        problem = f"{method.__name__}() needs 'nodes', {NODES}"
                    raise TypeError(problem) from None
                # names of other libraries, with those that are meant here
                hint = did_you_mean(unknown, (*signature.parameters, *MEANT), quoted=False, meant=MEANT)
                every = f"; help({method.__qualname__}) tells all arguments"
                if unknown in ON_CPUS:
                    hint = ": it computes on CPUs, and on no other device"
                raise TypeError(f"{method.__name__}() has no argument {unknown!r}{hint or every}") from None
            # two names of one option: both at once would hide one of the values
            for name, other in (("epoch", "epochs"), ("mission_title", "job_title")):
                if name in bound and bound.get(other) is not None:
                    both = f"{bound[name]!r} and {bound[other]!r}"
                    raise ValueError(f"parallel() takes '{name}' or '{other}', which is the same, got both, {both}")
            # the frame behind that of `answering` is the caller's
            with asked_by(call_of(sys._getframe(2), list(given))):
                return method(self, make(*args, **given))

        call = answering(call, always=(NetworkError, JobFailed), users=users_trace)
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\nArgs:\n{_described()}\n"
        return call

    return decorate


def _described() -> str:
    """Return the options as the `Args` of a docstring."""
    told = (textwrap.fill(f"{name}: {about.text}", 120, subsequent_indent=" " * 4) for name, about in options())
    return textwrap.indent("\n".join(told), " " * 4)


class Work(NamedTuple):
    """Model, data set and transform of a job.

    Args:
        model: the model, whose weights are the start.
        data: the data set.
        transform: applied on each worker after loading, or None.
    """

    model: Model
    data: AbsDataset
    transform: AbsTransformer | None


class ParallelSGD(Generic[Trained]):
    """Job that trains a model on the data set with all nodes that `parallel` is given.

    Args:
        model: set up (loss, metrics, input shape); it is not changed, its weights are the start.
        data: the data set.
        transform: applied on each worker after loading, or None.
    """

    @checked_call
    def __init__(self, model: Trained, data: AbsDataset, transform: AbsTransformer | None = None) -> None:
        self._model: Trained = arguments.instance("ParallelSGD", "model", model, Model)
        if isinstance(data, (tuple, list, np.ndarray)):
            raise TypeError(
                f"ParallelSGD 'data' must be a data set, got {type(data).__name__}: give "
                f"nn.dataset.ArrayDataset(x, y, test_x, test_y)"
            )
        self._data = arguments.instance("ParallelSGD", "data", data, AbsDataset)
        if isinstance(transform, (tuple, list)) and transform and all(isinstance(each, AbsTransformer) for each in transform):
            first, *rest = (f"{type(each).__name__}()" for each in transform)
            raise TypeError(
                f"ParallelSGD 'transform' must be one transform, got {type(transform).__name__}: write "
                f"{first}{''.join(f'.add({each})' for each in rest)}"
            )
        self._transform = (
            None if transform is None else arguments.instance("ParallelSGD", "transform", transform, AbsTransformer)
        )

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> object:
            """Refuse a name of Keras's or scikit-learn's with the one that a job has."""
            hint = "; a job trains by parallel(nodes, ..)" * (name in _TRAINS)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        """List the public names, for completion."""
        return listed(type(self), super().__dir__())

    def __repr__(self) -> str:
        parts = (self._model, self._data, *([] if self._transform is None else self._transform.steps))
        return f"ParallelSGD({', '.join(type(part).__name__ for part in parts)})"

    def _repr_html_(self) -> str:
        """Show the model, the data set and the transform of the job as an HTML table, for notebooks."""
        from nn.html import table  # noqa: PLC0415 - for notebooks alone

        steps = [] if self._transform is None else self._transform.steps
        model = type(self._model).__name__
        if self._model.built:
            model = f"{model}, {sum(each.value.size for each in self._model.store.everything):,} parameters"
        rows = [("model", model), ("data set", repr(self._data)), *(("transform", repr(step)) for step in steps)]
        return table("ParallelSGD", ["part", ""], rows)

    @called_with(JobOptions)
    def parallel(self, options: JobOptions) -> JobResult[Trained]:
        """Train on all `nodes` and return the mean of their last evaluations.

        It takes the fields of `JobOptions` as arguments; docs/options.md tells type, default and meaning of each.

        Raises: ValueError or TypeError for arguments that do not fit, before anything is sent; rpc.SubmissionError when the job
        could not be started (nothing runs then); JobFailed when it did not end well; KeyboardInterrupt.
        """
        result: Any = run_job(work_of(self), options)  # its models are of the class of this one
        trained: JobResult[Trained] = result
        return trained


def work_of(job: ParallelSGD) -> Work:
    """Return model, data set and transform of a job."""
    return Work(job._model, job._data, job._transform)


def run_job(
    work: Work,
    options: JobOptions,
    about: Mapping[str, Any] = MappingProxyType({}),
    arrays: Arrays | None = None,
    warn: Callable[[str], None] | None = None,
) -> JobResult:
    """Train a job as `ParallelSGD.parallel` does.

    Args:
        work: model, data set and transform.
        options: the options of the job.
        about: further facts for the record of the run, plain data.
        arrays: the four arrays of the data set, where the caller has loaded them.
        warn: gets warnings about the data, as in `check_data`.

    Raises: as `ParallelSGD.parallel`.
    """
    attach_console()
    short = has_short_console() or isinstance(options.nodes, (LocalNodes, InProcessNodes))
    shown = verbosity(options.verbose, short=short)
    with interrupts_put_off(), shown, telling("The job", _log):
        with telling(NOT_BEGUN, _log):
            spec, arrays = _prepared(work, options, about, arrays, warn)
        nodes = spec.options.nodes
        _log.info("Start job.")
        few = sorted(nodes.items())[:_MOST_LISTED]
        listed = "".join(f"\n\t\t-->ID: {node:3d}\t\tAddress:  {address}" for node, address in few)
        listed += f"\n\t\tand {len(nodes) - len(few)} more" * (len(nodes) > len(few))
        _log.info("Workers: (%s) nodes has been assigned:%s", len(nodes), listed)
        if spec.remark:
            _log.info("%s", spec.remark)
        # where neither is needed nothing follows the tables of the job while it runs
        is_shown = not is_quiet() and _log.isEnabledFor(logging.INFO)
        if not spec.options.writers and not is_shown:
            result = _train(spec, arrays)
            with spared("The record of the run"):
                _certify(result, spec)
            return result
        from .writers.console import JobConsole  # noqa: PLC0415 - a quiet job without writers needs neither
        from .writers.live import following  # noqa: PLC0415

        console = JobConsole(spec, arrays) if is_shown else None
        at_end = "What the writers get at the end" if spec.options.writers else "The console of the job"
        with following(spec.options.writers, spec.config, console) as followers:
            result = _train(spec, arrays, followers)
            try:
                with telling(at_end, _log), spared(at_end):
                    followers.done(lambda: result.history)
            finally:  # the hash of a file holds once no writer adds to it
                try:
                    with spared("The record of the run"):
                        _certify(result, spec)
                finally:
                    if console is not None:
                        with uninterrupted(), spared("The console of the job"):
                            console.done(result)
            return result


def _prepared(
    work: Work,
    options: JobOptions,
    about: Mapping[str, Any],
    arrays: Arrays | None,
    warn: Callable[[str], None] | None,
) -> tuple[JobSpec, Arrays]:
    """Return the specification of a job, checked, and the four arrays of its data set."""
    if not work.model.built:
        where = "" if is_ours(type(work.model)) else "in super().__init__(input_shape=[-1, ..]) of its class "
        raise ValueError(
            f"ParallelSGD 'model' must have its variables: {where}give it an input_shape and call setup() or compile()"
        )
    spec = replace(make_spec(work.model, work.data, work.transform, options.without_words()), about=about)
    # after the options, since loading may take minutes
    arrays = load_checked(work.data) if arrays is None else arrays
    spec = with_data(spec, arrays)
    made = check_data(work.model, arrays, work.transform, spec.plan, work.data, warn)
    # of large data, which workers transform, the number of samples is not known here
    if made is not None:
        spec = replace(spec, made=(len(made[0]), len(made[2])))
    if made is not None and spec.options.fault:
        # where workers come and go, later attempts may have other batches
        epochs = None if spec.policy == SHRINK else spec.options.epoch
        planned_faults(spec.options).check_batches(spec.plan.batches(len(made[0])).count, epochs)
    return with_population(spec, arrays, made), arrays


def _train(spec: JobSpec, arrays: Arrays, followers: Followers | None = None) -> JobResult:
    if isinstance(spec.options.nodes, InProcessNodes):
        from .driver.local_run import run_here  # noqa: PLC0415 - a submitter needs no worker in its process

        result = run_here(spec, arrays, followers)
    else:
        result = Retry(spec.options.wait, NodeBusy).call(_Submission(spec, arrays, followers))
    with spared("The look at the faults that never struck"):
        if spec.options.fault:
            _tell_idle_faults(result, spec)
    return result


class _Submission:
    """Submission of a job, called again while a node is busy.

    Args:
        spec: the job.
        arrays: its data set.
        followers: of the job.
    """

    def __init__(self, spec: JobSpec, arrays: Arrays, followers: Followers | None) -> None:
        self._spec, self._arrays, self._followers = spec, arrays, followers
        self._is_late = False

    def __call__(self) -> JobResult:
        """Raises: NodeBusy, and what `run_on_agents` raises."""
        # a try may come each second for hours: it costs the nodes that are free no process, and no record of a job
        if self._is_late:
            refuse_busy(self._spec.options.nodes)
        self._is_late = True
        return run_on_agents(self._spec, self._arrays, self._followers)


def _tell_idle_faults(result: JobResult, spec: JobSpec) -> None:
    """Warn of each planned fault to whose epoch, batch or attempt the job never came."""
    epochs = int(result.history.rows[-1][EPOCH]) if result.history.rows else spec.options.epoch
    batches = max((int(row["batch"]) for row in result.history.steps), default=None)
    again = f"{result.restarts or 'no'} restart{'s' * (result.restarts != 1)}"
    most = "" if batches is None else f" of at most {batches} batch{'es' * (batches != 1)}"
    for clause in planned_faults(spec.options).never(epochs, result.restarts, batches):
        _log.warning("The fault %r never struck: the job has ended with epoch %d%s, after %s.", clause, epochs, most, again)


def _certify(result: JobResult, spec: JobSpec) -> None:
    """Write the manifest of the run and, if the option `sign` asks for it, sign the run."""
    with spared("The manifest of the run"):
        # a run without files has no folder that could have a manifest
        if result.folder is not None:
            with uninterrupted():
                write_run_manifest(result.folder, result.job_id)
    with spared("The signature of the run"):
        _sign(result, spec)


def _sign(result: JobResult, spec: JobSpec) -> None:
    """Sign the run, if the option `sign` asks for it. The run has its result already, so a failure of the signature is a
    warning.
    """
    if spec.options.sign is not None:
        from .record.signing import sign_run  # noqa: PLC0415 - for a job that is signed

        try:
            if result.folder is None:
                raise ValueError("it has left no files")
            result.signature = sign_run(result.folder, spec.options.sign)
            _log.info("Signed by %s: %s", spec.options.sign, result.signature)
        except Exception as error:  # noqa: BLE001  the library is another's
            _log.warning("The run could not be signed; 'psgd sign' does it later. %s: %s", type(error).__name__, error)

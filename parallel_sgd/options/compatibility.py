"""Checks of the parts of a job against each other, before anything is sent: a job that cannot work is refused in words.

`check_parts`: optimizer, rule, codecs, sync type and assignment. `check_data`: model, data set and transform, on real samples.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nn.optimizer
from nn.arrays import all_finite
from nn.dataset.interface import AbsDataset, Arrays, drawn_rows
from nn.dataset.transforms.abstract import AbsTransformer, check_fields
from nn.extension import HiddenName, is_ours, level_of_user
from nn.model import Model
from nn.model.batches import as_type, first_bad_sample
from nn.model.scale import unscaled
from nn.optimizer import IOptimizer
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..codec import compose
from ..codec.bank import CodecBank, made
from ..codec.choice import choose_codecs, choose_server_codecs, is_whole
from ..codec.compose.advice import counts_twice
from ..codec.interfaces import Codec
from ..codec.parameters import check_parameters
from ..codec.plain import Plain
from ..codec.settings import GlobalSettings, MissingParameter
from ..engine.channel import Parameter_Server
from ..engine.plan import WorkerPlan
from ..profiles.blockassignment.abstract import ISetting
from ..simulation.kernel import Kernel
from ..simulation.timeline import SkippingClock

_PACKAGE = __name__.partition(".")[0]


def check_parts(plan: WorkerPlan, model: Model, has_server: bool) -> None:
    """Check that optimizer, rule, codecs, sync type and assignment of a job can work together.

    Warns with CodecWarning of a codec that is known to train badly with the rule.

    Args:
        plan: the plan of the workers.
        model: the model to be trained.
        has_server: whether a parameter server is among the nodes.

    Raises: ValueError or TypeError naming both parts and a remedy; MissingParameter where a codec needs one that the job does
    not give; each ValueError or TypeError of a codec's constructor.
    """
    op_type, sync_type, variables = plan.options.op_type, plan.options.sync_type, len(model.trainable_variables())
    kinds = choose_codecs(plan.codec, plan.default_codec, variables)
    servers = choose_server_codecs(plan.server_codec, plan.codec, plan.default_codec, variables) if has_server else []
    if model.graph.carried:
        raise ValueError(
            f"'model' must carry no states from batch to batch, got {model.graph.carried[0].kept.owner.describe()} with "
            "stateful=True: a state belongs to the process that has computed it, so bits would depend on the workers; train it "
            "with fit(), or give longer sequences, or make the state an input and an output (initial_state, return_state)"
        )
    if plan.limits and not model.graph.has_lengths:
        raise ValueError(
            "'transform' Buckets cuts sequences, so an input of 'model' must have an axis of any length, [-1, None, ...], got "
            f"{', '.join(str(entry.shape) for entry in model.graph.inputs)}"
        )
    if plan.limits and plan.options.clients is not None:
        raise ValueError("'transform' Buckets deals samples by their lengths, and 'clients' by their owners: give one of them")
    check_exchanges(op_type)
    op_type.admit(plan.optimizer.rule())
    check_sharded(op_type, plan.codec, sync_type, has_server)
    # once for each class, not for each variable
    for kind in dict.fromkeys(kinds):
        if kind.traits.needs_server and not has_server:
            raise ValueError(f"'codec' {kind.__name__} needs a parameter server among the nodes: parse_worker(n, ps=True)")
        check_meaning(op_type, kind)
        if kind.traits.asynchronous and sync_type.staleness == 0:
            raise ValueError(
                f"'codec' {kind.__name__} takes packets of any batch, but 'sync_type' {sync_type.__name__} keeps batches "
                f"apart: take AsynchronizedSGD or StaleSynchronous(s) with s of at least 1"
            )
        sync_type.admit(kind, op_type)
        # of composed codecs alone it is known what follows from their parts
        if hasattr(kind, "composition"):
            for text in compose.check(kind, plan.optimizer.rule(), op_type, plan.codec_parameters):
                # the line of the user's program that calls parallel() or sweep()
                warnings.warn(text, compose.CodecWarning, stacklevel=level_of_user())
    check_scope(kinds, servers)
    check_copies(op_type, plan.assignment, kinds, bool(model.store.buffers))
    kind_of_sync = sync_type if isinstance(sync_type, type) else type(sync_type)
    check_parameters(plan.codec_parameters, [*kinds, *servers, kind_of_sync, op_type, plan.options.gd_type])
    if not op_type.by_shard:
        # in a context of its own: the trial must not leave its settings behind
        copy_context().run(_try_codecs, plan, model, kinds, servers)
        copy_context().run(_try_sync_type, plan, model, kinds)


def check_exchanges(op_type: type[IOptimizer]) -> None:
    """Refuse an optimizer that makes nothing of the results of other workers.

    Raises: ValueError.
    """
    if not op_type.exchanges:
        raise ValueError(
            f"'op_type' must be an optimizer that exchanges something, e.g. PSGDOptimizer, got {op_type.__name__}; to train "
            f"every worker alone use codec=DummyCodec"
        )


def check_meaning(op_type: type[IOptimizer], codec: type[Codec]) -> None:
    """Check that the codec takes the values that the optimizer puts, and gives back results of the meaning that the optimizer
    takes.

    The check trusts a codec outside this package that declares nothing to know its optimizer.

    Raises: ValueError naming both.
    """
    if not issubclass(op_type, ExchangingOptimizer) or not _is_known(codec):
        return
    given = codec.traits.gives or op_type.puts
    if codec.traits.takes not in (None, op_type.puts):
        what = f"takes {codec.traits.takes}, but 'op_type' {op_type.__name__} puts {op_type.puts}"
    elif given != op_type.gets:
        what = f"gives back {given}, but 'op_type' {op_type.__name__} takes results for {op_type.gets}"
    else:
        return
    # in the message, optimizers that would go with the codec
    fitting = [
        kind.__name__
        for kind in _optimizers()
        if codec.traits.takes in (None, kind.puts)
        and (codec.traits.gives or kind.puts) == kind.gets
        and not counts_twice(codec, kind)
    ]
    instead = f"use op_type={' or '.join(fitting)}" if fitting else "no optimizer that ships goes with it"
    raise ValueError(f"'codec' {codec.__name__} {what}: {instead}")


def _is_known(codec: type[Codec]) -> bool:
    ours = (base for base in codec.__mro__ if issubclass(base, Codec) and base.__module__ != Codec.__module__)
    # a codec of a user's own that says nothing is believed; one derived from ours has the meaning of its base
    says = codec.traits.takes is not None or codec.traits.gives is not None
    return says or any(base.__module__.split(".")[0] == _PACKAGE for base in ours)


def _optimizers() -> Iterable[type[ExchangingOptimizer]]:
    """List the optimizers that a message can advise. `GAOptimizer` is not among them: it climbs, and a job that descends is not
    told to climb.
    """
    found = (getattr(nn.optimizer, name) for name in nn.optimizer.__all__ if name != nn.optimizer.GAOptimizer.__name__)
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, ExchangingOptimizer)]


def check_scope(kinds: Sequence[type[Codec]], servers: Sequence[type[Codec]]) -> None:
    """Check that the codecs of workers and parameter server have the same scope.

    Raises: ValueError naming both.
    """
    if not kinds:
        return
    worker, whole = kinds[0], is_whole(kinds)
    for server in dict.fromkeys(servers):
        # a server that the workers do not send to does no harm, but for a codec that awaits all variables as one
        if (server.traits.scope == "model") != whole and (worker.traits.needs_server or not whole):
            raise ValueError(
                f"'ps_codec' {server.__name__} has the scope \"{server.traits.scope}\", but 'codec' {worker.__name__} "
                f'"{worker.traits.scope}": both must have the same; an own class says scope = "model"'
            )


def check_copies(op_type: type[IOptimizer], assignment: ISetting, codecs: Sequence[type[Codec]], has_buffers: bool) -> None:
    """Check that all workers that hold a block put the same for it, where the first copy counts.

    Raises: ValueError naming optimizer and assignment.
    """
    by_block = not issubclass(op_type, ExchangingOptimizer) or op_type.by_block
    if by_block or not (has_buffers or any(codec.traits.takes_first_copy for codec in codecs)):
        return
    # workers with the same block, but other blocks beside it, would put different sums for it
    for block, holders in enumerate(assignment.block_2_node):
        shares = [sorted(assignment.node_2_block[node]) for node in holders]
        for node, share in zip(holders, shares, strict=True):
            if share != shares[0]:
                raise ValueError(
                    f"'op_type' {op_type.__name__} puts what depends on all blocks of a worker, so workers that share a block "
                    f"must share all of them, but 'assignment_type' {type(assignment).__name__} deals block {block} to node "
                    f"{holders[0]} with blocks {shares[0]} and to node {node} with blocks {share}: use DuplicateAssignment, "
                    f"redundancy=1, or op_type=PSGDOptimizer"
                )


def _try_codecs(plan: WorkerPlan, model: Model, kinds: Sequence[type[Codec]], servers: Sequence[type[Codec]]) -> None:
    """Make a codec of each class, as on the first worker and on the server, so that they can refuse the job.

    Errors that depend on the place (a file, a package) are left to the workers.
    """
    values = _values(model, kinds)
    first = plan.assignment.nodes[0]
    # the server's codecs as well, since the same class may refuse there
    for node, classes, own in ((first, kinds, values), (Parameter_Server, servers, [])):
        settings = plan.settings(own)
        GlobalSettings.install(settings)
        for kind in dict.fromkeys(classes):
            settings.codec, settings.variable = kind.__name__, classes.index(kind)
            try:
                # a codec may refuse the job only when it is made
                made(kind, node).dispose()
            except (MissingParameter, ValueError, TypeError):
                raise
            except Exception:  # noqa: BLE001, S112 - it may work where it will run
                continue


def _values(model: Model, kinds: Sequence[type[Codec]]) -> list[NDArray[Any]]:
    """Return the values that the codecs of the variables may know."""
    return [model.store.values] if is_whole(kinds) else [variable.value for variable in model.store.variables]


def _try_sync_type(plan: WorkerPlan, model: Model, kinds: Sequence[type[Codec]]) -> None:
    """Make the sync type of the first worker, so that one that cannot be made is refused here, with the words of its
    constructor: a number that does not fit the job, a name of its own that hides one of the engine.

    Raises: HiddenName or ValueError, as the constructor. Any other error may depend on the place, and is left to the workers.
    """
    chosen = plan.options.sync_type
    if isinstance(chosen, type) and is_ours(chosen):
        return
    first = plan.assignment.nodes[0]
    settings = plan.settings(_values(model, kinds))
    # a kernel without network: the bank needs a channel, and nothing is sent
    channel = Kernel([first], SkippingClock()).channel(first)
    names = tuple(variable.name for variable in model.store.variables)
    try:
        chosen(CodecBank(kinds[:1], settings, channel, 0), plan.timeout, time.monotonic, names)
    except (HiddenName, ValueError):
        raise
    except Exception:  # noqa: BLE001 - it may work where it will run
        _log.debug("The sync type cannot be made here.", exc_info=True)


_log = get_logger(SUBMIT_LOGGER)
_SMALL = 32 << 20  # bytes of a data set that is transformed as a whole; of a larger one some rows
_LOOKED_AT = 1 << 20  # labels among which those rows find their classes
_CHUNK = 1 << 20  # numbers that are converted at a time
_PARTS = ("train_x", "train_y", "test_x", "test_y")


def check_data(
    model: Model,
    arrays: Arrays,
    transform: AbsTransformer | None,
    plan: WorkerPlan,
    data: AbsDataset | None = None,
    warn: Callable[[str], None] | None = None,
) -> Arrays | None:
    """Check that `model` takes the samples that `transform` makes of the data set, and that they fill a batch of the plan.

    Of a data set of more than 32 MiB a batch is tried, in which each class is; all of it only where that fails, so a data set
    that is refused would have failed on the workers. A transform that needs a file or a package which only they have is left to
    them.

    Args:
        model: the model to be trained.
        arrays: train_x, train_y, test_x and test_y, as the data set loads them.
        transform: that of the job, or None.
        plan: the plan of the workers: block size, number of blocks, seed, class weights.
        data: the data set of the arrays. Where it drew them from samples that were given as one, messages tell rows of these.
        warn: gets the warnings about numbers that are too large or too small to learn well from, and about labels that are all
            the same; default: the log.

    Returns: the samples as the transform has made them, where it has made all; else None.

    Raises: ValueError or TypeError naming the part that does not fit; each error of a transform of the user's own.
    """
    block_size, block_count, seed = plan.options.block_size, plan.assignment.block_count, plan.options.seed
    given = _views(arrays)
    # rows are looked at first, so that a sentence about a transform's output can name the row in the data set
    bad = [
        _bad_row(part, array, model.dtype, partial(_origin, data, given, part))
        for part, array in zip(_PARTS, given, strict=True)
    ]
    found = next((row for row in bad if row), "")
    whole = bool(found) or sum(array.nbytes for array in given) <= _SMALL
    try:
        if not whole:
            # too few samples are refused before any transform runs
            plan.batches(len(given[0]))
            try:
                some = _transformed(transform, _some(given, block_size * block_count), seed)
                _check(model, some, "", plan.options.class_weight)
                _tell_scales(model, some, data, warn)
                _tell_alike(some[1], given[1], data, warn)
                return None
            except (OSError, ImportError):
                # these say that the transform cannot run here, not that it is wrong
                raise
            except Exception:  # noqa: BLE001  some rows may not do where all of them do: a transform may need more
                _log.debug("Some rows do not fit, so all are tried.", exc_info=True)
        made = _transformed(transform, given, seed)
    except (OSError, ImportError) as error:
        _log.info("The transform cannot be tried here, so its samples are checked on the workers: %s", error)
        return None
    _check(model, made, found, plan.options.class_weight)
    plan.batches(len(made[0]))  # refuses too few samples
    _tell_scales(model, made, data, warn)
    _tell_alike(made[1], given[1], data, warn)
    return made


def _views(arrays: object) -> Arrays:
    """Return the four arrays, read-only: a transform leaves its arguments as they are."""
    given = _four(arrays, "'data' must load")
    # objects cannot travel, nor be written into a run
    for name, array in zip(_PARTS, given, strict=True):
        if array.dtype.hasobject:
            raise TypeError(f"'data' must load arrays of numbers, got {name} of dtype {array.dtype}")
        array.flags.writeable = False
    return given


def _four(arrays: object, what: str) -> Arrays:
    if not isinstance(arrays, (tuple, list)) or len(arrays) != len(_PARTS):
        got = f"{len(arrays)} of them" if isinstance(arrays, (tuple, list)) else type(arrays).__name__
        raise TypeError(f"{what} four arrays, {', '.join(_PARTS)}, got {got}")
    # views, so that the flags of the user's arrays stay as they are
    train_x, train_y, test_x, test_y = (np.asarray(array).view() for array in arrays)
    for name, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if x.ndim == 0 or y.ndim == 0 or not 0 < len(x) == len(y):
            raise ValueError(f"{what} samples and as many labels, got {name}_x of shape {x.shape} and {name}_y of {y.shape}")
    return train_x, train_y, test_x, test_y


def _transformed(transform: AbsTransformer | None, arrays: Arrays, seed: int) -> Arrays:
    if transform is None:
        return arrays
    check_fields(arrays, transform)
    return _four(transform(*arrays, seed=seed), f"'transform' {type(transform).__name__} must return")


def _some(arrays: Arrays, count: int) -> Arrays:
    """Return a batch of each part, and beyond it a sample of each class that only other samples have."""
    parts = []
    for x, y in (arrays[:2], arrays[2:]):
        rows = [np.arange(min(count, len(x)))]
        if y.size == len(y) and y.dtype.kind in "biuf":
            values = y.reshape(-1)
            # the lowest and the highest label must fit the outputs of the model
            rows.append(np.array([values.argmin(), values.argmax()]))
            if y.dtype.kind != "f":
                rows.append(np.unique(values[:_LOOKED_AT], return_index=True)[1])
        chosen = sorted(set(np.concatenate(rows).tolist()))  # `np.unique` would load numpy.ma
        parts += [x[chosen], y[chosen]]
    return parts[0], parts[1], parts[2], parts[3]


def _check(model: Model, made: Arrays, bad: str, class_weight: Mapping[Any, float] | str | None) -> None:
    """Refuse samples or labels that the model does not take; `bad` is the first of the data set that is not finite."""
    for name, x, y in (("train", made[0], made[1]), ("test", made[2], made[3])):
        left = _bad_row(f"{name}_x", x, model.dtype)
        if left:
            raise ValueError(f"The samples of a job must be finite numbers: {bad or f'after the transform {left}'}")
        try:
            samples = model._take_samples(x)
        except ValueError as error:
            advice = "" if x.dtype.names else _advice(x.shape[1:], model.graph.placeholder.shape[1:])
            raise ValueError(f"'model' does not take {name}_x of the job: {error}{advice}") from error
        try:
            if class_weight is None:
                model._take_labels(y, samples)
            else:
                model._take_block(x, y, None, class_weight)
        except ValueError as error:
            raise ValueError(f"'model' does not go with {name}_y of the job: {error}{_more(y, model)}{_row(bad)}") from error


def _tell_scales(model: Model, made: Arrays, data: AbsDataset | None, warn: Callable[[str], None] | None) -> None:
    """Warn of columns and of values to predict that are large and that neither the transform nor the model scales."""
    if not model.epochs_trained:
        columns = getattr(data, "columns", None)  # of a data set of the user's own it may be anything
        named = isinstance(columns, (list, tuple)) and all(isinstance(each, str) for each in columns)
        for told in unscaled(model, made[0], made[1], columns if named else None):
            (warn or _log.warning)(told)


def _tell_alike(
    labels: NDArray[np.generic], given: NDArray[np.generic], data: AbsDataset | None, warn: Callable[[str], None] | None
) -> None:
    """Warn of labels for training that are all the same, of which any figure of training looks fine.

    Args:
        labels: those that the transform has made, or some of them, in which each class is.
        given: those of the data set.
        data: the data set, which may name its classes.
        warn: gets the warning; default: the log.
    """
    if not (_is_same(labels) and _is_same(given)):
        return
    first = given[0].reshape(-1)
    if len(first) > 1:
        # one-hot, or several labels, of which no single one can be told
        value = f", class {int(first.argmax())}" if np.count_nonzero(first) == 1 == first.max() else ""
    else:
        classes = getattr(getattr(data, "plan", None), "classes", None)
        if isinstance(classes, list) and first.dtype.kind in "iu" and 0 <= first[0] < len(classes):
            value = f", {classes[int(first[0])]!r}"
        else:
            value = f", {first[0].item():g}"
    (warn or _log.warning)(
        f"All {len(given):,} training samples have the same label{value}: a model learns nothing from them but to answer so."
    )


def _is_same(labels: NDArray[np.generic]) -> bool:
    if labels.dtype.kind not in "biuf" or labels.ndim not in (1, 2) or len(labels) < 2 or not labels[0].size:
        return False
    return bool((labels == labels[:1]).all())


def _row(bad: str) -> str:
    return f" (in the data set {bad})" if bad else ""


def _advice(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Advise how to make samples of this shape fit, in a job; "" where their number of values differs from the wanted one."""
    # a reshape makes samples fit only where the number of values is the same
    if math.prod(shape) != math.prod(wanted):
        return ""
    if len(wanted) == 1:
        return "; the transform ImageCls() makes images rows"
    layer = f"a model of input_shape={[-1, *shape]} may begin with nn.layer.Reshape({list(wanted)})"
    if wanted == (*shape, 1) and len(shape) == 2:
        return f"; in a job ImageCls(flatten=False, channels=True) adds it, or {layer}"
    flat = ", and ImageCls(flatten=False) leaves images as they are" if len(shape) == 1 else ""
    return f"; {layer}{flat}"


def _more(labels: NDArray[np.generic], model: Model) -> str:
    """Tell the numbers of labels and of outputs of a classifier, where they differ; else ""."""
    outputs = model.graph.output.shape[-1]
    if len(model.graph.outputs) == 1 and labels.ndim == 2 and labels.shape[1] != outputs:
        return f"; the model has {outputs} outputs, the labels {labels.shape[1]} columns"
    return ""


def _origin(data: AbsDataset | None, given: Arrays, part: str, row: int) -> str:
    """Tell, for a row of a part that was drawn, its row among the samples as they were given; "" where nothing was drawn."""
    drawn = drawn_rows(data, len(given[0]), len(given[2]))
    if drawn is None:
        return ""
    return f"; 'test_fraction' drew {part}: this is row {drawn[part.startswith('test')][row]} of what was given"


def _bad_row(
    part: str, array: NDArray[np.generic], dtype: np.dtype[np.floating], origin: Callable[[int], str] = lambda row: ""
) -> str:
    """Tell the first number that is not finite, or too large for the model, and the `origin` of its row; "" where there is
    none.
    """
    parts: Any = array
    for name in array.dtype.names or ():
        if found := _bad_row(f"{part}['{name}']", parts[name], dtype, origin):
            return found
    if array.dtype.kind != "f" or not array.size:
        return ""
    # so many rows at a time that a chunk has `_CHUNK` numbers, whatever a row has
    step = max(_CHUNK * len(array) // array.size, 1)
    for start in range(0, len(array), step):
        rows = np.ascontiguousarray(array[start : start + step])
        converted = as_type(rows, dtype)
        if not all_finite(converted):
            said = str(first_bad_sample(converted, rows, range(start, start + len(rows)))).replace("x[", f"{part}[")
            # the row of the first wrong number, counted in the whole array
            return said + origin(start + int(np.argwhere(~np.isfinite(converted))[0, 0]))
    return ""


def check_sharded(op_type: type[IOptimizer], codec: object, sync_type: object, has_server: bool) -> None:
    """Check that a job's other parts suit an optimizer that exchanges shards; any part suits the others.

    Raises: ValueError naming the optimizer and the part that does not suit it.
    """
    if not op_type.by_shard:
        return
    name = f"'op_type' {op_type.__name__}"
    if codec is not None and codec is not Plain:
        what = getattr(codec, "__name__", repr(codec))
        raise ValueError(f"{name} exchanges dense shards by itself and takes no other 'codec' than Plain, got {what}")
    if has_server:
        raise ValueError(f"{name} exchanges among the workers alone, but there is a parameter server among the nodes")
    if sync_type is not SynchronizedSGD:
        raise ValueError(f"{name} works with 'sync_type' SynchronizedSGD only, got {getattr(sync_type, '__name__', sync_type)}")

"""Whether model, data set and transform of a job go together: tried on real samples before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nn.dataset.interface import AbsDataset
from nn.dataset.split import drawn_rows
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model
from nn.model.batches import as_type
from nn.model.class_weights import with_class_weights
from nn.model.finite import all_finite, first_bad_sample
from rpc.logs import SUBMIT_LOGGER, get_logger

from .batches import Batches
from .plan import WorkerPlan
from .training import Samples

_log = get_logger(SUBMIT_LOGGER)
_SMALL = 32 << 20  # bytes of a data set that is transformed as a whole; of a larger one some rows
_LOOKED_AT = 1 << 20  # labels among which those rows find their classes
_CHUNK = 1 << 20  # numbers that are converted at a time
_PARTS = ("train_x", "train_y", "test_x", "test_y")


def check_data(
    model: Model, arrays: Samples, transform: AbsTransformer | None, plan: WorkerPlan, data: AbsDataset | None = None
) -> None:
    """Check that `model` takes what `transform` makes of the data set, and that it fills a batch of the plan.

    Of a data set of more than 32 MiB a batch is tried, in which each class is; all of it only where that fails, so what is
    refused would have failed on the workers. A transform that needs a file or a package which only they have is left to them.
    Where `data`, of which the arrays are, drew them from samples that were given as one, messages tell rows of these.

    Raises: ValueError or TypeError naming what does not fit; whatever a transform of one's own raises.
    """
    block_size, block_count, seed = plan.block_size, plan.assignment.block_count, plan.seed
    given = _views(arrays)
    bad = [
        _bad_row(part, array, model.dtype, partial(_origin, data, given, part))
        for part, array in zip(_PARTS, given, strict=True)
    ]
    found = next((row for row in bad if row), "")
    whole = bool(found) or sum(array.nbytes for array in given) <= _SMALL
    try:
        if not whole:
            Batches(len(given[0]), block_size, block_count)
            try:
                _check(model, _transformed(transform, _some(given, block_size * block_count), seed), "", plan.class_weight)
                return
            except (OSError, ImportError):
                raise
            except Exception:  # noqa: BLE001  some rows may not do where all of them do: a transform may need more
                _log.debug("Some rows do not fit, so all are tried.", exc_info=True)
        made = _transformed(transform, given, seed)
    except (OSError, ImportError) as error:
        _log.info("The transform cannot be tried here, so its samples are checked on the workers: %s", error)
        return
    _check(model, made, found, plan.class_weight)
    Batches(len(made[0]), block_size, block_count)  # refuses too few samples


def _views(arrays: object) -> Samples:
    """The four arrays, read-only: a transform leaves what it gets as it is."""
    given = _four(arrays, "'data' must load")
    for name, array in zip(_PARTS, given, strict=True):
        if array.dtype.hasobject:
            raise TypeError(f"'data' must load arrays of numbers, got {name} of dtype {array.dtype}")
        array.flags.writeable = False
    return given


def _four(arrays: object, what: str) -> Samples:
    if not isinstance(arrays, (tuple, list)) or len(arrays) != len(_PARTS):
        got = f"{len(arrays)} of them" if isinstance(arrays, (tuple, list)) else type(arrays).__name__
        raise TypeError(f"{what} four arrays, {', '.join(_PARTS)}, got {got}")
    train_x, train_y, test_x, test_y = (np.asarray(array).view() for array in arrays)
    for name, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if x.ndim == 0 or y.ndim == 0 or not 0 < len(x) == len(y):
            raise ValueError(f"{what} samples and as many labels, got {name}_x of shape {x.shape} and {name}_y of {y.shape}")
    return train_x, train_y, test_x, test_y


def _transformed(transform: AbsTransformer | None, arrays: Samples, seed: int) -> Samples:
    if transform is None:
        return arrays
    return _four(transform(*arrays, seed=seed), f"'transform' {type(transform).__name__} must return")


def _some(arrays: Samples, count: int) -> Samples:
    """A batch of each part, and beyond it a sample of each class that only others have."""
    parts = []
    for x, y in (arrays[:2], arrays[2:]):
        rows = [np.arange(min(count, len(x)))]
        if y.size == len(y) and y.dtype.kind in "biuf":
            values = y.reshape(-1)
            rows.append(np.array([values.argmin(), values.argmax()]))
            if y.dtype.kind != "f":
                rows.append(np.unique(values[:_LOOKED_AT], return_index=True)[1])
        chosen = np.unique(np.concatenate(rows))
        parts += [x[chosen], y[chosen]]
    return parts[0], parts[1], parts[2], parts[3]


def _check(model: Model, made: Samples, bad: str, class_weight: Mapping[int, float] | None) -> None:
    """Refuse samples or labels that the model does not take; `bad` is the first of the data set that is not finite."""
    for name, x, y in (("train", made[0], made[1]), ("test", made[2], made[3])):
        left = _bad_row(f"{name}_x", x, model.dtype)
        if left:
            raise ValueError(f"The samples of a job must be finite numbers: {bad or f'after the transform {left}'}")
        try:
            model.check(x)
        except ValueError as error:
            advice = _advice(x.shape[1:], model.graph.placeholder.shape[1:])
            raise ValueError(f"'model' does not take {name}_x of the job: {error}{advice}") from error
        try:
            labels = model.labels(y, len(x))
            if class_weight is not None:
                with_class_weights(None, labels, model.graph.output.shape, class_weight, model.dtype)
        except ValueError as error:
            raise ValueError(f"'model' does not go with {name}_y of the job: {error}{_more(y, model)}{_row(bad)}") from error


def _row(bad: str) -> str:
    return f" (in the data set {bad})" if bad else ""


def _advice(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What makes samples of this shape fit, in a job."""
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
    """Of labels and outputs of a classifier: how many there are of each."""
    outputs = model.graph.output.shape[-1]
    if labels.ndim == 2 and labels.shape[1] != outputs:
        return f"; the model has {outputs} outputs, the labels {labels.shape[1]} columns"
    return ""


def _origin(data: AbsDataset | None, given: Samples, part: str, row: int) -> str:
    """Behind a row of a part that was drawn: which row of the samples given it is."""
    drawn = drawn_rows(data, len(given[0]), len(given[2]))
    if drawn is None:
        return ""
    return f"; 'test_fraction' drew {part}: this is row {drawn[part.startswith('test')][row]} of what was given"


def _bad_row(
    part: str, array: NDArray[np.generic], dtype: np.dtype[np.floating], origin: Callable[[int], str] = lambda row: ""
) -> str:
    """The first number that is not finite, or too large for the model, and the `origin` of its row: "" where there is none."""
    if array.dtype.kind != "f" or not array.size:
        return ""
    step = max(_CHUNK * len(array) // array.size, 1)
    for start in range(0, len(array), step):
        rows = np.ascontiguousarray(array[start : start + step])
        converted = as_type(rows, dtype)
        if not all_finite(converted):
            said = str(first_bad_sample(converted, rows, range(start, start + len(rows)))).replace("x[", f"{part}[")
            return said + origin(start + int(np.argwhere(~np.isfinite(converted))[0, 0]))
    return ""

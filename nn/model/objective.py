"""Objective of a training: the losses of a model's outputs, their factors, and metrics; and parts that are given by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from nn import arguments
from nn.arguments import part
from nn.loss.decisions import BinaryLoss, Hinge
from nn.loss.loss import Loss
from nn.metric.metric import Metric, TwoClassMetric


class Objective(NamedTuple):
    """Losses and metrics of a model.

    Args:
        places: the outputs that have a loss, by their number.
        losses: the loss of each of these.
        factors: the factor of each loss in the sum that training makes small.
        metrics: the metrics of all outputs.
        seen: for each metric, the place among the outputs with a loss of the one that it looks at.
        names: names of the results, in their order.
        words: for each metric the word that stood for it, "" for one that was given as an object.
    """

    places: tuple[int, ...]
    losses: tuple[Loss, ...]
    factors: tuple[float, ...]
    metrics: tuple[Metric, ...]
    seen: tuple[int, ...]
    names: tuple[str, ...]
    words: tuple[str, ...]

    def results(self, total: float, losses: Sequence[float]) -> dict[str, float]:
        """Return the results by name: the loss, that of each output where there are several, and the metrics."""
        values = [total, *(losses if len(self.names) > 1 + len(self.metrics) else ())]
        return dict(zip(self.names, [*values, *(metric._number(metric.result()) for metric in self.metrics)], strict=True))


def in_order(what: str, given: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Return parts that are given by name, or in order, as a tuple in the order of the names.

    Args:
        what: the argument, for messages.
        given: a dict or an array with fields by name, or a list or tuple; for a single name also the part itself.
        names: the names; a single one may be "", where nothing can be given by it.

    Raises:
        ValueError: for names that are missing or not known, and for another number of parts.
        TypeError: for a single object in place of several.
    """
    fields = given.dtype.names if isinstance(given, np.ndarray) else None
    # A list may be the data itself, so a single part is given as it is, unless a dict or fields name it.
    if len(names) == 1 and (not names[0] or not (isinstance(given, Mapping) or fields)):
        return (given,)
    if isinstance(given, Mapping) or fields:
        known = tuple(fields or given)
        for name in names:
            if name not in known:
                others = [str(each) for each in known if each not in names]
                instead = f", but {arguments.short(others[0])}" if others else ""
                raise ValueError(f"{what} must have a part for each of {', '.join(names)}, got none for '{name}'{instead}")
        for name in known:
            if name not in names:
                hint = arguments.did_you_mean(name, names)
                raise ValueError(f"{what} must have parts for {', '.join(names)} only, got {arguments.short(name)}{hint}")
        return tuple([given[name] for name in names])
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"{what} must be a list, or a dict by name, of {len(names)} parts, {', '.join(names)}, got {type(given).__name__}"
            + (f" of shape {given.shape}" if isinstance(given, np.ndarray) else "")
        )
    if len(given) != len(names):
        raise ValueError(f"{what} must have {len(names)} parts, {', '.join(names)}, got {len(given)}")
    return tuple(given)


def objective(loss: Any, metrics: Any, weights: Any, outputs: Sequence[str]) -> Objective:
    """Return the losses and metrics for outputs of these names.

    Args:
        loss: a loss or its word; for several outputs one for all, or a list or dict with None for those without one.
        metrics: metrics or their words; for several outputs also a dict or list of lists, one for each output.
        weights: the factors of the losses, a list or a dict by name, which may leave some out; None: all 1.
        outputs: names of the outputs.

    Raises ValueError or TypeError naming the argument that does not fit.
    """
    chosen = _losses(loss, outputs)
    factors = _factors(weights, chosen, outputs)
    places = tuple([place for place, each in enumerate(chosen) if each is not None])
    losses = [each for each in chosen if each is not None]
    found: list[Metric] = []
    words: list[str] = []
    seen: list[int] = []
    for place, given in _by_output(metrics, outputs, places):
        if place not in places:
            raise ValueError(f"setup() 'metrics' must be those of outputs with a loss, but '{outputs[place]}' has none")
        own = losses[places.index(place)]
        metric = _metric(given, own)
        # `Weighted` hides the metric that it weighs, and the checks are about that one.
        inner = metric._inner()
        _check_threshold(inner, own)
        if isinstance(inner, TwoClassMetric):
            # The loss says what scores mean: a hinge's are decisions around 0, others' become probabilities.
            decisions = isinstance(own, Hinge)
            inner.look_at(decisions=decisions, each=decisions or isinstance(own, BinaryLoss))
        if len(outputs) > 1:
            metric = named(metric, outputs[place])
        found.append(metric)
        words.append(given if isinstance(given, str) else "")
        seen.append(places.index(place))
    names = ["Loss", *([f"{outputs[place]}_Loss" for place in places] if len(outputs) > 1 else [])]
    names += [metric.name for metric in found]
    if len(set(names)) < len(names):
        raise ValueError(f"setup() 'metrics' must have different names, got {', '.join(names)}")
    return Objective(
        places,
        tuple(losses),
        tuple([factors[place] for place in places]),
        tuple(found),
        tuple(seen),
        tuple(names),
        tuple(words),
    )


def named(metric: Metric, output: str) -> Metric:
    """Return a copy of a metric that bears the name of an output in front of its own."""
    # A copy, since a metric that is given once for all outputs counts each of them by itself.
    copy = deepcopy(metric)
    copy._keep(name=f"{output}_{metric.name}")
    return copy


def _losses(loss: Any, outputs: Sequence[str]) -> list[Loss | None]:
    if isinstance(loss, Mapping):
        missing = {name: None for name in outputs if name not in loss}
        given = in_order("setup() 'loss'", {**loss, **missing}, outputs if len(outputs) > 1 or outputs[0] else ("output",))
    elif len(outputs) > 1 and isinstance(loss, (list, tuple)):
        if len(loss) != len(outputs):
            raise ValueError(
                f"setup() 'loss' must have one loss, or None, for each of the {len(outputs)} outputs, "
                f"{', '.join(outputs)}, got {len(loss)}"
            )
        given = tuple(loss)
    elif len(outputs) > 1 and isinstance(loss, Loss):
        # A loss has work space of the shape of its output, so each output has a loss of its own.
        given = tuple([deepcopy(loss) for _ in outputs])
    else:
        given = (loss,) * len(outputs)
    return [None if each is None else part("setup()", "loss", each, Loss, "nn.loss") for each in given]


def _factors(weights: Any, losses: Sequence[Loss | None], outputs: Sequence[str]) -> list[float]:
    if weights is None:
        return [1.0] * len(outputs)
    name = "setup() 'loss_weights'"
    if isinstance(weights, Mapping):
        ones: dict[str, Any] = {each: 1.0 for each in outputs if each not in weights}
        # `in_order` refuses missing names, which here mean 1.
        weights = {**ones, **weights}
    elif not isinstance(weights, (list, tuple)):
        raise TypeError(f"{name} must be a list or a dict of one number for each output, got {arguments.short(weights)}")
    if len(outputs) == 1 and isinstance(weights, (list, tuple)) and len(weights) == 1:
        given: tuple[Any, ...] = tuple(weights)
    else:
        given = in_order(name, weights, outputs)
    found = []
    for output, weight, loss in zip(outputs, given, losses, strict=True):
        # A list has a place for each output, also for one without a loss.
        if loss is None and isinstance(weights, (list, tuple)) and weight is None:
            weight = 1.0
        found.append(arguments.number("setup()", f"loss_weights[{output}]", weight, 0))
    return found


def _by_output(metrics: Any, outputs: Sequence[str], places: Sequence[int]) -> list[tuple[int, Any]]:
    """Return pairs of the number of an output and a metric of it."""
    if isinstance(metrics, Mapping):
        for name in metrics:
            if name not in outputs:
                hint = arguments.did_you_mean(name, outputs)
                raise ValueError(f"setup() 'metrics' must be those of {', '.join(outputs)}, got {arguments.short(name)}{hint}")
        lists: list[tuple[int, Any]] = [(outputs.index(name), each) for name, each in metrics.items()]
        # Results come in the order of the outputs, whatever that of the dict is.
        lists.sort(key=lambda pair: pair[0])
    elif len(outputs) > 1 and any(isinstance(each, (list, tuple)) for each in metrics):
        if len(metrics) != len(outputs):
            raise ValueError(
                f"setup() 'metrics' must have a list for each of the {len(outputs)} outputs, {', '.join(outputs)}, "
                f"got {len(metrics)}"
            )
        lists = list(enumerate(metrics))
    elif len(outputs) > 1:
        # as with losses: one for all
        return [(place, each) for place in places for each in metrics]
    else:
        return [(0, each) for each in metrics]
    return [
        (place, each)
        for place, given in lists
        for each in (() if given is None else given if isinstance(given, (list, tuple)) else (given,))
    ]


def _check_threshold(metric: Metric, loss: Loss) -> None:
    """Refuse a threshold for scores where the metric gets the probabilities that the loss makes of them."""
    threshold = getattr(metric, "threshold", None)
    if isinstance(loss, BinaryLoss) and threshold is not None and not 0 < threshold < 1:
        raise ValueError(
            f"{type(metric).__name__} 'threshold' must be a probability, > 0 and < 1, as metrics beside {type(loss).__name__} "
            f"get probabilities of models that end in scores, too, got {threshold:g}; a score of 0 is a probability of 0.5"
        )


def _metric(given: object, loss: Loss) -> Metric:
    if isinstance(loss, BinaryLoss):
        given = _OF_DECISIONS.get(given, given) if isinstance(given, str) else given
    if isinstance(given, Metric) and given._word:
        # The word may stand for another metric beside this loss.
        holder: Any = type(given)
        weighing: Metric = holder(_metric(given._word, loss))
        return weighing
    if isinstance(given, (list, tuple)):
        raise TypeError(
            f"setup() 'metrics' must be given one by one, got {arguments.short(given)}; write setup(loss, *metrics)"
        )
    metric: Metric = part("setup()", "metrics", given, Metric, "nn.metric")
    return metric


#: Words of metrics of classes, with those of the metrics that they stand for where each output is a decision.
_OF_DECISIONS = {"accuracy": "binary_accuracy", "macro_f1": "label_f1"}


def weighted(metrics: Any) -> Any:
    """Return metrics, a list, a list of lists or a dict of them by output, as `Weighted` ones."""
    if isinstance(metrics, Mapping):
        return {name: weighted(given) for name, given in metrics.items()}
    if isinstance(metrics, (list, tuple)):
        return [weighted(given) for given in metrics]
    from nn.metric.weighted import Weighted  # noqa: PLC0415 - for programs that weigh: workers do not

    return metrics if metrics is None or isinstance(metrics, Weighted) else Weighted(metrics)


def together(metrics: Any, others: Any) -> Any:
    """Return two arguments for metrics as one; raise TypeError where they are not both lists, or both dicts."""
    if not others:
        return metrics
    if not metrics:
        return others
    if isinstance(metrics, Mapping) and isinstance(others, Mapping):
        names = dict.fromkeys((*metrics, *others))
        return {name: [*_listed(metrics.get(name)), *_listed(others.get(name))] for name in names}
    if isinstance(metrics, Mapping) or isinstance(others, Mapping):
        raise TypeError("compile() 'metrics' and 'weighted_metrics' must both be lists, or both dicts by output")
    if any(isinstance(each, (list, tuple)) for each in (*metrics, *others)):
        if len(metrics) != len(others):
            raise ValueError(
                f"compile() 'metrics' and 'weighted_metrics' must have a list for each output, got {len(metrics)} and "
                f"{len(others)}"
            )
        return [[*_listed(each), *_listed(other)] for each, other in zip(metrics, others, strict=True)]
    return [*metrics, *others]


def _listed(given: Any) -> Sequence[Any]:
    return () if given is None else given if isinstance(given, (list, tuple)) else (given,)


def flat(metrics: Iterable[Any]) -> Any:
    """Return what `setup` was given as metrics, one by one, as `objective` takes it: a dict stands alone."""
    given = list(metrics)
    return given[0] if len(given) == 1 and isinstance(given[0], Mapping) else given

"""Inputs of a model besides arrays: rows of a table and images, which its plan encodes; and meanings of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nn.activation.sigmoids import Sigmoid, Softmax
from nn.arrays import Array, MaybeNone, is_rows
from nn.extension import renamed
from nn.loss.cross_entropy import Cross_Entropy_With_Softmax
from nn.loss.decisions import Binary_Cross_Entropy, BinaryLoss
from nn.model.ending import gives_probabilities
from nn.model.scored_network import ScoredNetwork

if TYPE_CHECKING:
    from nn.dataset.plan.kinds import UnknownTexts
    from nn.dataset.plan.plan import Plan

__all__ = ["Answers", "Planned", "answers", "probabilities"]


class Planned(ScoredNetwork, fixed=("_inputs",), internal=("_rows_as_samples",), passes={"_rows_as_samples": (3,)}):
    """A network that may have a plan of columns, by which it predicts and evaluates rows of a table."""

    _inputs: Plan | None = None

    @property
    def inputs(self) -> Plan | MaybeNone:
        """The plan by which `predict`, `evaluate` and `fit` make samples of rows; None where there is none.

        It may be set to a plan, a data set that has one, a transform, or a list of one of these and the transforms behind it.
        Rows are a DataFrame, a Series or dict of one row, or a list of dicts, by column name. Arrays of floats are taken as
        they are; arrays of integers, and texts, after the transforms of the plan.
        """
        return self._inputs

    @inputs.setter
    def inputs(self, given: Any) -> None:
        self._inputs = None if given is None else _plan_of(type(self).__name__, given)

    if not TYPE_CHECKING:  # editors offer no former names
        rows_as_samples = renamed("_rows_as_samples")

    def _rows_as_samples(self, owner: str, x: Any, unknown: UnknownTexts | None = None) -> Any:
        """Return samples: rows and integers as the plan encodes them, all else as it is.

        Args:
            owner: the argument that holds them, for messages.
            x: rows or samples.
            unknown: treatment of a category that the plan does not have, None for that of the plan.

        Raises:
            ValueError: as `Plan.encode`; for dicts where there is no plan.
        """
        if unknown is not None and (self._inputs is None or not self._inputs.columns):
            raise ValueError(f"{owner} may go with 'unknown' where the model has a plan of columns; this one has none")
        if isinstance(x, (list, tuple)) and x and isinstance(x[0], str):
            x = np.array(x, object)
        if isinstance(x, np.ndarray):
            return x if self._inputs is None else self._inputs.samples(x)
        if not is_rows(x):
            return x
        if self._inputs is None or not self._inputs.columns:
            if hasattr(x, "iloc"):
                return x
            raise ValueError(f"{owner} must be an array for a model without a plan of columns, got dicts; set model.inputs")
        return self._inputs.apply(x, unknown)

    def _remember_names(self, x: Any) -> None:
        """Have later frames be taken by the names of these columns, all of which are numbers."""
        if self._inputs is None and is_rows(x) and hasattr(x, "iloc"):
            from nn.dataset.plan.plan import Plan  # noqa: PLC0415 - for a model that is given a frame

            # The first frame decides; a plan that is there stays.
            self._inputs = Plan.of_names(x)

    def _labels_of(self, label: Any) -> Any:
        """Labels that are names of the plan's classes as class numbers, all else as it is."""
        classes = None if self._inputs is None else self._inputs.classes
        if classes is None or label is None:
            return label
        values = np.asarray(label)
        # Numbers are class numbers already.
        if values.dtype.kind not in "UTO" or values.ndim != 1:
            return label
        return self._inputs.label_numbers("'label'", [values.astype(object)]) if self._inputs else label


def _plan_of(owner: str, given: Any) -> Plan:
    from nn.dataset.plan.plan import Plan  # noqa: PLC0415 - for a model that is given one

    first, *steps = given if isinstance(given, (list, tuple)) and given else [given]
    if hasattr(first, "at_prediction"):
        # A transform alone, of arrays that stand in no table.
        first, steps = Plan(), [first, *steps]
    plan = first if isinstance(first, Plan) else getattr(first, "plan", None)
    if plan is None and hasattr(first, "load") and not isinstance(first, Plan):
        plan = Plan()  # of a data set of arrays
    if not isinstance(plan, Plan):
        raise TypeError(
            f"{owner} 'inputs' must be a Plan, a data set, a transform, or a list of one of these and transforms, got "
            f"{type(first).__name__}"
        )
    return plan.followed_by(*steps) if steps else plan


def probabilities(model: ScoredNetwork, output: Array) -> Array:
    """Return the probability of each class ``(n, classes)`` for an output of scores or of probabilities.

    Args:
        model: that has given the output; one that ends in `Softmax` gives probabilities.
        output: ``(n, classes)``.
    """
    if gives_probabilities(model.graph, Softmax):
        return output
    # The greatest power is 1, so that none overflows.
    powers = np.exp(output - output.max(axis=1, keepdims=True))
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found


class Answers(NamedTuple):
    """Predictions of a model for rows.

    Args:
        label: the name of the predicted column, "prediction" where the plan has none.
        values: the names of the classes, their numbers, or values, ``(n,)``; ``(n, outputs)`` for several.
        classes: the names of the classes, None for values.
        probabilities: ``(n, classes)``, None for values.
        columns: the names of several columns that are predicted, None where there is one, or the plan does not name each.
    """

    label: str
    values: Array
    classes: Sequence[str] | None
    probabilities: Array | None
    columns: Sequence[str] | None = None


def answers(model: Planned, x: Any, unknown: UnknownTexts | None = None) -> Answers:
    """Return the predictions of a model for rows or samples, by the names of its plan.

    Args:
        model: trained, with `inputs` where `x` are rows.
        x: rows or samples.
        unknown: as in `Planned.rows_as_samples`.
    """
    plan = model.inputs
    if len(model.graph.inputs) > 1 or len(model.graph.outputs) > 1:
        raise ValueError(f"rows can be answered by a model of one input and one output, got {model!r}; call predict()")
    output = ScoredNetwork.predict(model, model._rows_as_samples("'x'", x, unknown))
    labels = () if plan is None else plan.labels
    name = labels[0].name if len(labels) == 1 else "prediction"
    names = None if plan is None else plan.classes
    several = output.ndim == 2 and output.shape[1] > 1
    classifies = names is not None or (len(labels) == 1 and labels[0].whole)
    scores = isinstance(model.loss, Cross_Entropy_With_Softmax) or gives_probabilities(model.graph, Softmax)
    if several and (scores or names is not None) and (classifies or not labels):
        chances = probabilities(model, output) if scores else None
        return _of_classes(name, names, output.argmax(axis=1), chances, output.shape[1])
    if classifies and output.ndim == 2 and output.shape[1] == 1 and _is_binary(model):
        # Behind such a loss a model that does not end in `Sigmoid` gives scores.
        scores = isinstance(model.loss, Binary_Cross_Entropy) and not gives_probabilities(model.graph, Sigmoid)
        # A score far below 0 overflows, and 1 / (1 + inf) is the 0 that its chance rounds to.
        with np.errstate(over="ignore"):
            chance = 1 / (1 + np.exp(-output)) if scores else output
        chances = np.concatenate([1 - chance, chance], axis=1)
        return _of_classes(name, names, (chance[:, 0] > 0.5).astype(np.intp), chances, 2)
    values = output if plan is None else plan.restore(output)
    columns = [label.name for label in labels] if values.ndim == 2 and values.shape[1] == len(labels) > 1 else None
    return Answers(name, values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values, None, None, columns)


def _of_classes(name: str, names: Sequence[str] | None, places: Array, chances: Array | None, count: int) -> Answers:
    texts = list(map(str, range(count))) if names is None or len(names) != count else list(names)
    values = np.array(texts, object)[places] if names is not None else places
    return Answers(name, values, texts, chances)


def _is_binary(model: ScoredNetwork) -> bool:
    return isinstance(model.loss, BinaryLoss) or gives_probabilities(model.graph, Sigmoid)

"""A plan made of the columns of a table, which may have a part to train on and one to evaluate on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nn.dataset.plan.cells import Cells
from nn.dataset.plan.decide import LabelKind, MixedKinds, Wishes, decide, decide_frame_label, decide_label, loses, measured
from nn.dataset.plan.kinds import Category, CellError, Column, Date, Label, LeftOut, Misfit
from nn.dataset.plan.plan import Plan
from nn.dataset.plan.text import Text, texts_in

__all__ = ["PartError", "completed", "joined", "label_of", "label_of_frame", "left_out", "plan_columns"]

Parts = Sequence[Mapping[str, Cells]]
"""The cells of each column of each part, by name."""

_log = logging.getLogger("nn.dataset")


class PartError(CellError):
    """A cell of one of the parts that is not of the kind of its column.

    Args:
        part: which part, from 0.
        row: the row in it, from 0.
        wrong: the column, the expectation, and the cell.
        type_name: the type of the cell in Python, for a cell of another type than most.
    """

    def __init__(self, part: int, row: int, wrong: str, type_name: str = "") -> None:
        super().__init__(f"part {part}", row, wrong)
        self.part, self.type_name = part, type_name


def joined(parts: Parts, name: str) -> Cells:
    """Return the cells of a column of all parts, one part behind the other.

    Args:
        parts: the parts of the table.
        name: name of the column.
    """
    cells = [part[name] for part in parts]
    # Numbers of both kinds join as numbers; other mixtures cell by cell.
    if len({"f" if each.dtype.kind in "iuf" else each.dtype.kind for each in cells}) > 1:
        # Of different kinds: joined as objects, no cell changes.
        cells = [each.astype(object) for each in cells]
    return cells[0] if len(cells) == 1 else np.concatenate(cells)


def plan_columns(
    parts: Parts, names: Sequence[str], wishes: Wishes, orders: Mapping[str, Sequence[str]] | None = None
) -> tuple[Column, ...]:
    """Return the kind of each column; raises PartError, ValueError.

    Args:
        parts: the cells of each part.
        names: the columns.
        wishes: the arguments about them.
        orders: the categories of a column's type in pandas, by name.
    """
    found = []
    for name in names:
        try:
            found.append(decide(name, joined(parts, name), wishes, (orders or {}).get(name)))
        except Misfit as wrong:
            raise _in_part(parts, name, wrong) from wrong
    return tuple(found)


def label_of(parts: Parts, name: str, kind: LabelKind, wishes: Wishes) -> Label:
    """Return the kind of a column of labels; the errors are those of `plan_columns` and `decide_label`.

    Args:
        parts: the training table and others, each with cells by column name.
        name: name of the column.
        kind: 'class', 'number' or 'auto', as in `CSVDataset`.
        wishes: arguments of the data set about its columns.
    """
    try:
        return decide_label(name, joined(parts, name), kind, wishes)
    except Misfit as wrong:
        raise _in_part(parts, name, wrong) from wrong


def label_of_frame(parts: Parts, name: str, order: Sequence[str] | None) -> Label:
    """Return the kind of a column of labels of a frame; raises PartError.

    Args:
        parts: the training table and others, each with cells by column name.
        name: name of the column.
        order: the categories of its type; None where it has none.
    """
    try:
        return decide_frame_label(name, joined(parts, name), order)
    except Misfit as wrong:
        raise _in_part(parts, name, wrong) from wrong


def _in_part(parts: Parts, name: str, wrong: Misfit) -> PartError:
    part, row = 0, wrong.row
    # Down to the row in its own part.
    while row >= len(parts[part][name]):
        row -= len(parts[part][name])
        part += 1
    came = f"{wrong.type_name} {wrong.cell!r}" if isinstance(wrong, MixedKinds) else repr(wrong.cell)
    return PartError(part, row, f"column {name!r} must be {wrong.expected}, got {came}{wrong.hint}")


def left_out(name: str, why: str, asked: bool) -> LeftOut:
    """Return a column that is no feature, and say so in the log: as a warning where the program has not asked for it.

    Args:
        name: name of the column.
        why: the reason, a clause behind "it", for the log and the table of the plan.
        asked: whether the program has named the column for it.
    """
    _log.log(logging.INFO if asked else logging.WARNING, "Column %r is left out: it %s.", name, why)
    return LeftOut(name, note=why)


def completed(plan: Plan, parts: Parts, raw: Sequence[NDArray[np.float64]], train: NDArray[np.intp] | slice) -> Plan:
    """Return the plan with ranges, medians to fill gaps with, and the type of x.

    Args:
        plan: with columns that are not open.
        parts: the cells of each part.
        raw: the numbers ``(rows, numbers)`` of each part, NaN for gaps.
        train: which rows of the first part are for training.

    Raises:
        ValueError: where gaps are to be filled and no training row has a number, and for a number that float32 does not hold.
    """
    place, columns, wide = 0, [], False
    every = np.concatenate(raw) if len(raw) > 1 else raw[0]
    for column in plan.columns:
        width = len(column.names)
        values = every[:, place : place + width]
        if width == 1 and not isinstance(column, (Category, Text)):
            known = values[~np.isnan(values)]
            if len(known) and np.abs(known).max() > float(np.finfo(np.float32).max):
                largest = known[np.abs(known).argmax()]
                raise ValueError(f"column {column.name!r} must fit float32, its largest value is {largest:g}")
            # One column that needs float64 makes all of x so: an array has one type.
            wide = wide or loses(known, exact=isinstance(column, Date))
            trained = raw[0][train, place : place + 1] if plan.missing == "fill" else None
            column = measured(column, values, trained)
        columns.append(column)
        place += width
    return replace(plan, columns=tuple(columns), dtype="float64" if wide else "float32")


def opened(plan: Plan, parts: Parts) -> Plan:
    """Return the plan with the categories or words of its open columns, from the cells of all parts."""
    columns: list[Column] = []
    for column in plan.columns:
        if isinstance(column, Text) and column.is_open:
            column = column.adapted(text for text in texts_in(joined(parts, column.name)) if text is not None)
        elif column.is_open:
            wishes = Wishes(categories=[column.name], spelling=plan.spelling)
            column = replace(plan_columns(parts, [column.name], wishes)[0], note=column.note)
        columns.append(column)
    return replace(plan, columns=tuple(columns))

"""The kind of each column, decided by all of its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn.dataset.plan.cells import (
    ISO,
    TRUTH,
    WHOLE,
    Cells,
    Spelling,
    days_of,
    guess_dates,
    has_leading_zeros,
    is_iso,
    is_nearly_number,
    kind_of,
    text_of,
)
from nn.dataset.plan.kinds import Category, Column, Date, Label, Misfit, Number, missing_rows

__all__ = ["AUTO", "LabelKind", "Wishes", "decide", "decide_label", "is_row_number", "loses", "measured"]

LabelKind: TypeAlias = Literal["auto", "class", "number"]
AUTO: Final = "auto"
_MOST_CATEGORIES = 1000  # of one column; more are names or numbers of things, which tell a model nothing


class Wishes(NamedTuple):
    """Arguments of a data set about its columns.

    Args:
        categories: the columns to take as texts, even if all cells look like numbers or dates.
        dates: the columns that are dates, and the form of each.
        numbers: the columns that are numbers; a text in them is a gap.
        spelling: how texts spell numbers and gaps.
        place: where the cells stand, by which messages advise arguments: a "file", a "frame", or a "label" column.
    """

    categories: Collection[str] = ()
    dates: Mapping[str, str] = {}
    numbers: Collection[str] = ()
    spelling: Spelling = Spelling()
    place: Literal["file", "frame", "label"] = "file"

    def as_texts(self, name: str) -> str:
        """Return the argument that takes all cells of the column `name` for texts."""
        return "label_kind='class'" if self.place == "label" else f"categories=[{name!r}]"

    def as_dates(self, name: str, form: str = "..") -> str:
        """Return the argument that takes all cells of a column for dates; "" where there is none.

        Args:
            name: name of the column.
            form: form of its dates, as `datetime.strptime` takes it; default: dots for the reader to fill in.
        """
        shown = form if form == ".." else repr(form)
        return "" if self.place == "label" else f"dates={{{name!r}: {shown}}}"


def decide(name: str, cells: Cells, wishes: Wishes, categories: Sequence[str] | None = None) -> Column:
    """Return the kind of a column.

    Args:
        name: the column.
        cells: all cells of all parts, ``(rows,)``.
        wishes: the arguments about columns.
        categories: the categories of its type in pandas, in their order.

    Raises:
        Misfit: for the first cell that is of another kind than most, with the arguments that would take it.
        ValueError: for more than 1000 categories.
    """
    gaps = missing_rows(cells, wishes.spelling)
    count = int(gaps.sum())
    if name in wishes.dates:
        return Date(name, count, form=wishes.dates[name] or ISO)
    if name in wishes.categories or categories is not None:
        return _category(name, count, cells[~gaps], categories, wishes)
    if name in wishes.numbers:
        return _forced(name, count, cells[~gaps], wishes.spelling)
    if cells.dtype.kind == "M":
        return Date(name, count)
    # A column without any cell is a number, which all of its gaps fit.
    if cells.dtype.kind != "O" or count == len(cells):
        return Number(name, count, truth=cells.dtype.kind == "b")
    kind = _kind_of_objects(cells, gaps)
    if kind == "number":
        return Number(name, count, truth=all(isinstance(cell, (bool, np.bool_)) for cell in cells[~gaps]))
    if kind == "date":
        return Date(name, count)
    return _of_texts(name, cells, gaps, wishes)


def _kind_of_objects(cells: Cells, gaps: NDArray[np.bool_]) -> str:
    """Return the kind that all cells have; raise Misfit for the first of another kind than most."""
    kinds = [kind_of(cell) for cell in cells]
    found = Counter(kind for kind, gap in zip(kinds, gaps, strict=True) if not gap)
    if len(found) == 1 and "" not in found:
        return next(iter(found))
    # Sorted, so that of equally frequent kinds the same one is usual every time.
    usual = max((kind for kind in sorted(found) if kind), key=lambda kind: found[kind], default="number")
    row = next(row for row, kind in enumerate(kinds) if kind != usual and not gaps[row])
    known = any(found[kind] for kind in found if kind)
    what = f"a {usual}, as other cells of the column are" if known else "a number, a text or a date"
    raise MixedKinds(row, what, cells[row])


class MixedKinds(Misfit):
    """A cell of another type of Python than most of its column."""

    def __init__(self, row: int, expected: str, cell: object) -> None:
        super().__init__(row, expected, cell)
        self.type_name = type(cell).__name__


def _of_texts(name: str, cells: Cells, gaps: NDArray[np.bool_], wishes: Wishes) -> Column:
    spelling = wishes.spelling
    texts = [cell.strip() for cell in cells[~gaps]]
    rows = np.flatnonzero(~gaps)
    # Decided by the different texts, which are often far fewer than the cells.
    counts = Counter(texts)
    distinct = list(counts)
    count = int(gaps.sum())
    numbers = spelling.numbers(distinct)
    if numbers is not None and np.isfinite(numbers).all():
        _refuse_lost(name, wishes, distinct, numbers, texts, rows)
        return Number(name, count)
    if {text.lower() for text in distinct} <= TRUTH.keys():
        return Number(name, count, truth=True)
    # what only looks like a number, such as inf, 28,7 and 12%, counts as one, so that it is named
    good = {text for text in distinct if (value := spelling.number(text)) is not None and np.isfinite(value)}
    like = sum(counts[text] for text in distinct if text in good or is_nearly_number(text))
    if 2 * like >= len(texts):
        # The first in the order of the rows, for the message.
        place = next(place for place, text in enumerate(texts) if text not in good)
        odd = [text for text in distinct if text not in good]
        raise Misfit(int(rows[place]), "a finite number", texts[place], _remedy(name, wishes, counts, odd, like))
    iso = [text for text in distinct if is_iso(text)]
    dates = {text for text, day in zip(iso, days_of(iso, ISO).tolist(), strict=True) if day == day}
    if len(dates) == len(distinct):
        return Date(name, count)
    like = sum(counts[text] for text in dates)
    if 2 * like >= len(texts):
        place = next(place for place, text in enumerate(texts) if text not in dates)
        hint = (
            f", as {like} of {len(texts)} cells of the column are; {_or(_gap_of([texts[place]], wishes), *_ways(name, wishes))}"
        )
        raise Misfit(int(rows[place]), f"a date {ISO}", texts[place], hint)
    forms = guess_dates(distinct)
    if forms:
        # Two digits do not tell the century, and two forms not which is meant.
        if len(forms) > 1 or "%y" in forms[0]:
            ways = [way for form in forms[:3] if (way := wishes.as_dates(name, form))]
            raise Misfit(
                int(rows[0]), "told to be a date or a text", texts[0], f": {_or(*ways, wishes.as_texts(name))} says so"
            )
        return Date(name, count, f"dates as {forms[0]}", form=forms[0])
    return _category(name, count, cells[~gaps], None, wishes)


def _remedy(name: str, wishes: Wishes, counts: Mapping[str, int], odd: Sequence[str], like: int) -> str:
    """Describe the arguments that would take a column of numbers with odd cells, the likely way first."""
    spelling, behind = wishes.spelling, " of pandas.read_csv" if wishes.place == "frame" else ""
    best = ""
    tried = [
        *((f"decimal={mark!r}", spelling._replace(decimal=mark)) for mark in ",·"),
        *((f"thousands={mark!r}", spelling._replace(thousands=mark)) for mark in (",", "'", "’", " ", "\u00a0", "\u202f")),
        ("decimal=',', thousands='.'", spelling._replace(decimal=",", thousands=".")),
    ]
    for said, other in tried:
        numbers = other.numbers(counts)
        if numbers is not None and np.isfinite(numbers).all():
            best = said
            break
    ways = [f"{best}{behind} makes numbers of all of them"] if best else []
    if len(odd) < len(counts):  # else no number would be left
        ways.append(f"{_gap_of(odd if len(odd) <= 3 else (), wishes)} takes {'it' if len(odd) == 1 else 'them'} for a gap")
        ways += [f"numbers=[{name!r}] all that is no number"] if wishes.place != "label" else []
    ways.append(f"{wishes.as_texts(name)} takes all for texts")
    others = [f"{word}{behind}" for word in ("decimal=", "thousands=") if word not in best]
    others += [way for way in (wishes.as_dates(name),) if way]
    written = f"; {_and(*others)} say{'s' * (len(others) == 1)} how it is written" if others else ""
    return f", as {like} of {sum(counts.values())} cells of the column are or nearly are; {', '.join(ways)}{written}"


def _gap_of(texts: Sequence[str], wishes: Wishes) -> str:
    """Return the argument that takes texts for gaps."""
    said = f"na_values=[{', '.join(repr(text[:40]) for text in texts) or '..'}]"
    return said + {"file": "", "frame": " of pandas.read_csv", "label": " with missing='drop'"}[wishes.place]


def _ways(name: str, wishes: Wishes) -> list[str]:
    return [way for way in (wishes.as_dates(name), f"{wishes.as_texts(name)} takes it") if way]


def _or(*ways: str) -> str:
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} or {ways[-1]}"


def _and(*ways: str) -> str:
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} and {ways[-1]}"


def _refuse_lost(
    name: str,
    wishes: Wishes,
    distinct: Sequence[str],
    numbers: NDArray[np.float64],
    texts: Sequence[str],
    rows: NDArray[np.intp],
) -> None:
    """Refuse numbers that are names, such as 007, and integers that float64 cannot tell apart."""
    zeros = next((text for text in distinct if has_leading_zeros(text)), None)
    if zeros is not None:
        drops = "label_kind='number'" if wishes.place == "label" else f"numbers=[{name!r}]"
        hint = f", whose zeros a number loses: {wishes.as_texts(name)} keeps them, {drops} drops them"
        raise Misfit(int(rows[texts.index(zeros)]), "told to be a text or a number", zeros, hint)
    # Below this float64 tells all whole numbers apart.
    if np.abs(numbers).max() < WHOLE:
        return
    seen: dict[float, int] = {}
    for text, number in zip(distinct, numbers.tolist(), strict=True):
        # As whole numbers of Python, which have no limit.
        if text.lstrip("+-").isdecimal() and seen.setdefault(number, int(text)) != int(text):
            hint = f", which float64 takes for {seen[number]}: {wishes.as_texts(name)} keeps them apart"
            raise Misfit(int(rows[texts.index(text)]), "told apart from others", text, hint)


def _forced(name: str, gaps: int, held: Cells, spelling: Spelling) -> Number:
    if held.dtype.kind != "O":
        return Number(name, gaps)
    truth = all(str(cell).strip().lower() in TRUTH for cell in held)
    column = Number(name, coerce=True, truth=truth)
    lost = int(np.isnan(column.values(held, spelling)).sum())
    note = f"{lost} cells that are no numbers are gaps" if lost else ""
    return replace(column, gaps=gaps + lost, note=note)


def _category(name: str, gaps: int, held: Cells, given: Sequence[str] | None, wishes: Wishes) -> Category:
    # Sorted, so that the numbers do not depend on the order of the rows.
    ordered = tuple(sorted({text_of(cell) for cell in held.tolist()}) if given is None else given)
    if len(ordered) > _MOST_CATEGORIES:
        out = f"{'features= names the others' if wishes.place == 'file' else 'drop() of pandas'}, index={name!r} this one"
        raise ValueError(
            f"column {name!r} must have at most {_MOST_CATEGORIES} different texts, got {len(ordered)}: make numbers of them, "
            f"dates={{{name!r}: ..}} of dates, or leave it out: {out}"
        )
    return Category(name, gaps, categories=ordered)


def decide_label(name: str, cells: Cells, kind: LabelKind, wishes: Wishes) -> Label:
    """Return the kind of a column of labels without gaps; raises as `decide`.

    Args:
        name: the column.
        cells: all cells of all parts, ``(rows,)``.
        kind: "class", "number", or "auto": classes where they are texts or whole numbers.
        wishes: the arguments about columns.
    """
    if kind == "number":
        # With the words true and false, as 1 and 0.
        return _numbers(name, Number(name, truth=True).values(cells, wishes.spelling), whole=False)
    texts = cells.dtype.kind == "O" and all(isinstance(cell, str) for cell in cells)
    if kind == "class" and texts:
        found = wishes.spelling.numbers(cell.strip() for cell in cells)
        # Texts that spell numbers which no float holds exactly are names.
        plain = found is not None and bool((np.abs(found) < WHOLE).all())
        if not plain or any(has_leading_zeros(cell.strip()) for cell in cells):
            return Label(name, classes=tuple(sorted({cell.strip() for cell in cells})), dtype="int64")
    column = decide(name, cells, Wishes(spelling=wishes.spelling, place="label")) if texts else Number(name)
    if isinstance(column, Date):
        return _numbers(name, column.values(cells, wishes.spelling), whole=False, form=column.form)
    if not isinstance(column, Number) or (texts and not _are_numbers(cells, wishes.spelling)):
        return Label(name, classes=tuple(sorted({text_of(cell) for cell in cells.tolist()})), dtype="int64")
    values = column.values(cells, wishes.spelling)
    whole = (values == np.rint(values)) & (np.abs(values) < WHOLE)
    if kind == "class" and not whole.all():
        raise ValueError(f"column {name!r} must hold whole numbers for label_kind='class', got {values[~whole][0]:g}")
    return _numbers(name, values, whole=bool(whole.all()))


def decide_frame_label(name: str, cells: Cells, categories: Sequence[str] | None) -> Label:
    """Return the kind of a column of labels of a frame: texts are classes, numbers keep their type; raises as `decide`."""
    if categories is not None:
        return Label(name, classes=tuple(categories), dtype="int64")
    gaps = missing_rows(cells, Spelling())
    kind = "" if cells.dtype.kind != "O" or gaps.all() else _kind_of_objects(cells, gaps)
    if kind == "text":
        return Label(name, int(gaps.sum()), classes=tuple(sorted({text_of(cell) for cell in cells[~gaps]})), dtype="int64")
    if kind == "date" or cells.dtype.kind == "M":
        values = Date(name).values(cells, Spelling())
        return _numbers(name, values[~np.isnan(values)], whole=False, form=ISO)
    values = Number(name).values(cells, Spelling())
    kept = cells.dtype.name if cells.dtype.kind in "biuf" else "float32"
    return replace(_numbers(name, values[~np.isnan(values)], whole=False), dtype=kept)


def _are_numbers(cells: Cells, spelling: Spelling) -> bool:
    return spelling.numbers(cell.strip() for cell in cells) is not None


def _numbers(name: str, values: NDArray[np.float64], *, whole: bool, form: str = "") -> Label:
    bounds = (float(values.min()), float(values.max())) if len(values) else (None, None)
    kind = "int64" if whole else "float64" if loses(values, exact=bool(form)) else "float32"
    return Label(name, whole=whole, dtype=kind, low=bounds[0], high=bounds[1], form=form)


def loses(values: NDArray[np.float64], *, exact: bool = False) -> bool:
    """Return whether float32 makes equal numbers of different ones, or changes one where all are whole.

    Args:
        values: without NaN.
        exact: whether it must change none, as of dates: it would move their time of day by minutes.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
        # The common case: nothing changes.
        if np.array_equal(rounded, values):
            return False
        if exact or np.array_equal(values, np.rint(values)):
            return True
        # In order, so that values which become equal stand side by side.
        values = np.sort(values)
        return bool((np.diff(values.astype(np.float32)) == 0)[np.diff(values) > 0].any())


def measured(column: Column, values: NDArray[np.float64], train: NDArray[np.float64] | None) -> Column:
    """Return a column of numbers or dates with range and, where `train` has values, its median to fill gaps with.

    Args:
        column: of any kind; others stay as they are.
        values: all of its numbers ``(rows, 1)``, NaN for gaps, after the offset.
        train: those of the training rows, None where gaps are not filled.

    Raises:
        ValueError: where gaps are to be filled and no training row has a number.
    """
    if not isinstance(column, (Number, Date)):
        return column
    # The numbers are those after the offset; people want the values of the table.
    known = values[~np.isnan(values)] + column.offset
    bounds = (float(known.min()), float(known.max())) if len(known) else (None, None)
    fill = column.fill
    if train is not None and fill is None:
        held = train[~np.isnan(train)]
        if not len(held):
            raise ValueError(f"column {column.name!r} must have a number in one of the training rows, got none")
        # Of training rows alone, and less sensitive to single huge values than the mean.
        fill = float(np.median(held)) + column.offset
    return replace(column, low=bounds[0], high=bounds[1], fill=fill)


def is_row_number(cells: Cells, spelling: Spelling) -> bool:
    """Return whether a column counts the rows in their order, from 0 or from 1: three rows at least.

    Args:
        cells: cells of the column ``(rows,)``.
        spelling: how texts spell numbers.
    """
    if len(cells) < 3:
        return False
    if cells.dtype.kind == "O":
        texts = [cell.strip() for cell in cells if isinstance(cell, str)]
        # The first and the last cell rule out most columns before all are read as numbers.
        if len(texts) < len(cells) or not all(text.isdecimal() for text in (texts[0], texts[-1])):
            return False
        numbers = spelling.numbers(texts)
        if numbers is None:
            return False
    elif cells.dtype.kind in "iu":
        numbers = cells.astype(np.float64)
    else:
        return False
    return bool(numbers[0] in (0, 1) and np.array_equal(numbers, np.arange(len(numbers)) + numbers[0]))

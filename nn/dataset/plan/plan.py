"""The plan of columns: the only place that turns rows of a table into numbers, for training and for prediction."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.plan.cells import Cells, Spelling
from nn.dataset.plan.kinds import Category, CellError, Column, Date, Label, LeftOut, Misfit, Number, UnknownTexts
from nn.dataset.plan.marks import check_delimiter, check_encoding, check_marks
from nn.dataset.plan.rows import table_of
from nn.dataset.plan.text import Text
from nn.extension import level_of_user
from nn.html import table

if TYPE_CHECKING:
    from nn.dataset.transforms.abstract import AbsTransformer

__all__ = ["Plan", "Policy"]

Policy: TypeAlias = Literal["error", "drop", "nan", "fill"]
FORMAT: Final = "psgd.plan/1"
KINDS: Final[Mapping[str, type[Column]]] = {kind.word: kind for kind in (Number, Category, Text, Date, Label, LeftOut)}
"""The kinds by their words."""
_HEADS = ("column", "kind", "values", "gaps", "becomes", "note")


@dataclass(frozen=True, repr=False)
class Plan:
    """Kinds of the columns of a table, and transforms of samples before a model sees them. A plan never changes.

    `repr` and a notebook show it as a table. `encode` makes x of rows, `labels_of` labels, and `apply` the input of the model:
    x after `steps`, the transforms with the statistics of training. `change` gives a plan with another kind for one column.

    Args:
        columns: features and columns that are left out, in the order of x.
        labels: the columns to predict.
        missing: treatment of a missing cell, as in `CSVDataset`.
        unknown: treatment of a category that the plan does not have: "error", or "none" of the categories.
        spelling: how texts spell numbers and gaps.
        dtype: the type of x; "float64" where float32 would merge different values.
        delimiter: the mark between the cells of a file.
        encoding: the encoding of a file.
        label_axis: whether labels are ``(n, labels)`` although there is one column.
        steps: transforms of x before the model, as `nn.dataset.transforms.describe` gives them.
        rows: `row_checksums` of the data set of the run, by the name of the array.

    >>> plan = nn.dataset.Plan((nn.dataset.plan.Number("area"), nn.dataset.plan.Category("city", categories=("Bern", "Chur"))))
    >>> plan.encode([{"area": 50, "city": "Chur"}]).tolist()
    [[50.0, 0.0, 1.0]]
    """

    columns: tuple[Column, ...] = ()
    labels: tuple[Label, ...] = ()
    missing: Policy = "error"
    unknown: UnknownTexts = "error"
    spelling: Spelling = Spelling()  # noqa: RUF009 - it cannot change
    dtype: str = "float32"
    delimiter: str = ","
    encoding: str = "utf-8"
    label_axis: bool = False
    steps: tuple[tuple[str, dict[str, Any]], ...] = ()
    rows: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (("columns", Column), ("labels", Label)):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or not all(isinstance(each, kind) for each in value):
                raise TypeError(f"Plan '{name}' must be a list of {kind.__name__} objects, got {arguments.short(value)}")
            # The class is frozen; a list is taken over as a tuple, which cannot change later.
            object.__setattr__(self, name, tuple(value))
            if name == "columns" and any(isinstance(column, Label) for column in value):
                raise TypeError(
                    "Plan 'columns' must be features and columns that are left out; Label objects stand in 'labels'"
                )
            names = [column.name for column in value]
            if len(set(names)) < len(names):
                raise ValueError(f"Plan '{name}' must have different names, got {', '.join(names)[:400]}")
        arguments.one_of(self._owner, "missing", self.missing, get_args(Policy))
        arguments.one_of(self._owner, "unknown", self.unknown, get_args(UnknownTexts))
        arguments.one_of(self._owner, "dtype", self.dtype, _DTYPES)
        check_marks(self._owner, self.spelling.decimal, self.spelling.thousands)
        object.__setattr__(self, "delimiter", check_delimiter(self._owner, self.delimiter))
        check_encoding(self._owner, self.encoding)
        arguments.instance(self._owner, "label_axis", self.label_axis, bool)

    @property
    def _owner(self) -> str:
        return type(self).__name__

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """The columns that become numbers of x."""
        return tuple(column for column in self.columns if not isinstance(column, LeftOut))

    @cached_property
    def _feature_names(self) -> list[str]:
        return [column.name for column in self.features]

    @property
    def of_texts(self) -> set[str]:
        """Return the names of the columns with cells that must be read as texts, even if they look like numbers."""
        named = {column.name for column in self.columns if isinstance(column, (Category, Date, Text))}
        return named | {label.name for label in self.labels if label.classes is not None or label.form}

    @property
    def names(self) -> list[str]:
        """The names of the numbers in x: a column, or ``column=text`` for one of its categories."""
        return [name for column in self.features for name in column.names]

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes, in the order of their numbers; None where labels are numbers."""
        found = self.labels[0].classes if len(self.labels) == 1 else None
        return None if found is None else list(found)

    @property
    def is_open(self) -> bool:
        """Whether a column must be completed by the cells of a file; `CSVDataset` does so."""
        return any(column.is_open for column in self.columns)

    def encode(self, rows: Any, unknown: UnknownTexts | None = None) -> Array:
        """Return x ``(n, numbers)`` of rows, before the `steps`.

        Args:
            rows: a DataFrame, a Series or dict of one row, or a list of dicts, with the columns by name; others do not count.
            unknown: treatment of an unknown category, None for that of the plan.

        Raises:
            TypeError: for something else than rows.
            ValueError: naming row and column for a cell of another kind than its column, and for a missing one, which
                only ``missing='fill'`` and 'nan' take; for a column that is not there.
        """
        return self.numbers("encode() 'rows'", table_of("encode() 'rows'", rows, self._feature_names), unknown)

    def numbers(self, owner: str, cells: Sequence[Cells], unknown: UnknownTexts | None = None) -> Array:
        """Return x ``(n, numbers)`` of cells; raises as `encode`.

        Args:
            owner: begins the errors.
            cells: those of each feature.
            unknown: as of `encode`.
        """
        x = self.raw(owner, cells, unknown)
        self.close(owner, x)
        # At least float32, whatever the columns hold.
        return x.astype(np.result_type(self.dtype, np.float32), copy=False)

    def raw(self, owner: str, cells: Sequence[Cells], unknown: UnknownTexts | None = None) -> NDArray[np.float64]:
        """Return the numbers ``(rows, numbers)`` of cells with NaN for missing ones; raises as `encode`.

        Args:
            owner: source of the cells, for errors.
            cells: cells ``(rows,)`` of each feature, in the order of x.
            unknown: treatment of an unknown category, None for that of the plan.
        """
        if unknown is None:
            unknown = self.unknown
        else:
            arguments.one_of(owner.partition(" '")[0], "unknown", unknown, get_args(UnknownTexts))
        # A prediction of one row is common, and should take microseconds.
        if cells and len(cells[0]) <= _FEW:
            return self._few(owner, cells, unknown)
        parts = []
        for column, values in zip(self._closed, cells, strict=True):
            try:
                parts.append(column.encode(values, self.spelling, unknown))
            except Misfit as wrong:
                raise _cell_error(owner, column, wrong) from None  # which says all that it does
        return np.concatenate(parts, axis=1) if parts else np.empty((0, 0))

    def _few(self, owner: str, cells: Sequence[Cells], unknown: UnknownTexts) -> NDArray[np.float64]:
        """Return the numbers of few rows, cell by cell: a call of NumPy for each column takes longer than all of them."""
        rows = [[0.0] * self._width for _ in cells[0]]
        place = 0
        for column, values in zip(self._closed, cells, strict=True):
            for row, cell in enumerate(values):
                try:
                    column.put(cell, rows[row], place, self.spelling, unknown)
                except Misfit as wrong:
                    wrong.row = row
                    raise _cell_error(owner, column, wrong) from None
            place += column.width
        return np.array(rows, np.float64)

    @cached_property
    def _width(self) -> int:
        return sum(column.width for column in self.features)

    @cached_property
    def _closed(self) -> tuple[Column, ...]:
        """The features; raises ValueError for one that is open."""
        for column in self.features:
            if column.is_open:
                raise ValueError(f"Plan: column {column.name!r} must be completed by a file first: CSVDataset(.., plan=plan)")
        return self.features

    def close(self, owner: str, x: NDArray[np.float64]) -> None:
        """Replace NaN in place as `missing` says.

        Args:
            owner: source of the rows, for errors.
            x: the numbers ``(rows, numbers)`` that `raw` gave.

        Raises CellError where a cell must not be missing, and for a number beyond float32.
        """
        # Checked in float64, before float32 would make it infinite.
        if (np.abs(x) > _LARGEST_32).any():
            row, place = (int(part) for part in np.argwhere(np.abs(x) > _LARGEST_32)[0])
            name = [column.name for column in self.features for _ in range(column.width)][place]
            raise CellError(owner, row, f"column {name!r} must fit float32, got {x[row, place]:g}")
        # The common case: one look at all numbers, none at single columns.
        if self.missing == "nan" or not np.isnan(x).any():
            return
        place = 0
        for column in self.features:
            part = x[:, place : place + column.width]
            place += part.shape[1]
            if self.missing == "fill":
                column.filled(part)
            if np.isnan(part).any():
                row = int(np.isnan(part).any(axis=1).argmax())
                raise CellError(owner, row, f"column {column.name!r} is missing")

    def labels_of(self, rows: Any) -> Array:
        """Return the labels of rows: ``(n,)`` of one column, else ``(n, labels)``; raises as `encode`."""
        cells = table_of("labels_of() 'rows'", rows, [label.name for label in self.labels])
        return self.label_numbers("labels_of() 'rows'", cells)

    def label_numbers(self, owner: str, cells: Sequence[Cells]) -> Array:
        """Return the labels of cells; raises as `encode`.

        Args:
            owner: begins the errors.
            cells: those of each label column.
        """
        if not self.labels:
            raise ValueError("Plan: there is no label column in this plan")
        parts = []
        for label, values in zip(self.labels, cells, strict=True):
            try:
                part = label.encode(values, self.spelling)[:, 0]
            except Misfit as wrong:
                # Its advice is for features.
                wrong.hint = ""
                raise _cell_error(owner, label, wrong) from None
            if np.isnan(part).any():
                raise CellError(owner, int(np.isnan(part).argmax()), f"column {label.name!r} is missing")
            parts.append(part.astype(label.dtype))
        return parts[0] if len(parts) == 1 and not self.label_axis else np.stack(parts, axis=1)

    def apply(self, rows: Any, unknown: UnknownTexts | None = None) -> Array:
        """Return the input of the model for rows: `encode`, then the `steps`; raises as these do.

        Args:
            rows, unknown: as of `encode`.
        """
        from nn.dataset.plan.steps import apply_steps  # noqa: PLC0415 - with the transforms, for a plan that has some

        x = self.encode(rows, unknown)
        return apply_steps(self._transforms, x, lambda: self.labels_of(rows)) if self.steps else x

    def labelled(self, rows: Any, unknown: UnknownTexts | None = None) -> tuple[Array, Array]:
        """Return samples and labels of rows as the model is evaluated on them, after the `steps`; raises as these do.

        Args:
            rows, unknown: as of `encode`.
        """
        x, y = self.encode(rows, unknown), self.labels_of(rows)
        if not self.steps:
            return x, y
        for step in self._transforms:
            x, y = step.at_evaluation(x, y)
        return x, y

    def samples(self, x: Array) -> Array:
        """Return the input of the model for samples that are arrays: floats as they are, all else after the `steps`."""
        if x.dtype.kind in "OUT" and len(self.features) == 1 and isinstance(self.features[0], Text):
            return self.apply({self.features[0].name: x.reshape(-1).tolist()})
        # Integers and texts are samples as they came, such as pixels; floats have been transformed already.
        if x.dtype.kind not in "biuOUT" or not self.steps:
            if (
                x.dtype.kind == "f"
                and self.steps
                and (name := next(filter(None, (t._left_out(x) for t in self._transforms)), ""))
            ):
                warnings.warn(
                    f"these samples look as they were before {name}, by which the model was trained: an array of floats is "
                    f"taken as it is. Give rows by column name, such as a DataFrame, or {name}.of(data).apply(x)",
                    stacklevel=level_of_user(),
                )
            return x
        from nn.dataset.plan.steps import apply_steps  # noqa: PLC0415 - as above

        return apply_steps(self._transforms, x, None)

    def restore(self, prediction: Array) -> Array:
        """Return the values to predict for an output `prediction` ``(n, ...)``, where labels were normalised; else as it is."""
        from nn.dataset.plan.steps import restored  # noqa: PLC0415 - as above

        return restored(self._transforms, prediction) if self.steps else prediction

    @property
    def begins_with_texts(self) -> bool:
        """Whether samples are texts before the steps, all of which arrays of numbers have been through."""
        return bool(self.steps) and not self.columns and all(step._of_texts for step in self._transforms)

    @cached_property
    def _transforms(self) -> list[AbsTransformer]:
        """The steps as transforms; raises ValueError for a name or arguments that there are not."""
        from nn.dataset.plan.steps import built  # noqa: PLC0415 - as above

        return built(self.steps)

    def change(self, name: str, kind: str, **how: Any) -> Plan:
        """Return a plan with another kind for one column, which `CSVDataset(.., plan=)` completes by its file.

        Args:
            name: the column.
            kind: "number", "category", "date" or "left out".
            how: further arguments of the kind, such as ``form="%d.%m.%Y"``.

        >>> plan = nn.dataset.Plan((nn.dataset.plan.Number("zip"),)).change("zip", "category")
        >>> plan.is_open
        True
        """
        arguments.one_of("change()", "kind", kind, [word for word in KINDS if word != Label.word])
        known = [column.name for column in self.columns]
        if name not in known:
            raise ValueError(
                f"change() 'name' must be a column of the plan, {', '.join(known)}, got {name!r}"
                f"{arguments.did_you_mean(name, known)}"
            )
        made = KINDS[kind](name, **{"note": "changed by hand", **how})
        return replace(self, columns=tuple(made if column.name == name else column for column in self.columns))

    def followed_by(self, *transforms: AbsTransformer) -> Plan:
        """Return the plan with transforms of known statistics behind its steps.

        Args:
            transforms: such as ``Normalize.of(data)``, ``NormalizeLabels.of(data)``, ``ImageCls()``.

        Raises:
            ValueError: for one that is made without statistics.
        """
        from nn.dataset.plan.steps import described  # noqa: PLC0415 - as above

        return replace(self, steps=(*self.steps, *described(transforms)))

    def agrees_with(self, other: Plan) -> str:
        """Return the first difference to the numbers that the plan `other` makes, in a sentence; "" where both encode alike."""
        mine, yours = self.names, other.names
        if mine != yours:
            lost = [name for name in mine if name not in yours]
            new = [name for name in yours if name not in mine]
            if not lost and not new:
                return "the columns stand in another order"
            return f"{', '.join(map(repr, lost[:3])) or 'nothing'} became {', '.join(map(repr, new[:3])) or 'nothing'}"
        if self.classes != other.classes:
            return f"the classes {self.classes} became {other.classes}"
        for column, its in zip(self.features, other.features, strict=True):
            # What changes the numbers; ranges and notes do not.
            for name in ("form", "offset", "word", *_OF_WORDS):
                if getattr(column, name, None) != getattr(its, name, None):
                    return f"column {column.name!r} has another {name}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON holds it."""
        return {
            "format": FORMAT,
            "columns": [column.to_dict() for column in self.columns],
            "labels": [label.to_dict() for label in self.labels],
            "missing": self.missing,
            "unknown": self.unknown,
            "decimal": self.spelling.decimal,
            "thousands": self.spelling.thousands,
            "na_values": list(self.spelling.na_values),
            "dtype": self.dtype,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "label_axis": self.label_axis,
            "steps": [[name, dict(config)] for name, config in self.steps],
            "rows": dict(self.rows),
        }

    def to_json(self) -> str:
        """Return the plan as a text of JSON, as `save` writes it."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a file of JSON at `path`, which is replaced in one step."""
        from nn.tensor_files import write_file  # noqa: PLC0415 - for a plan that is written

        write_file(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Return the plan of the file at `path`; raises ValueError naming the file and the fault, OSError."""
        from nn.tensor_files import read_file  # noqa: PLC0415 - for a plan that is read

        try:
            return cls.from_json(read_file(path).decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"The plan {os.fspath(path)!r} cannot be used: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan of a text that `to_json` made; raises ValueError naming the fault."""
        try:
            return cls.from_dict(json.loads(text))
        except RecursionError as error:
            raise ValueError("a plan must not be nested so deeply") from error

    @classmethod
    def from_dict(cls, content: object) -> Plan:
        """Return the plan for a `content` that `to_dict` gave; raises ValueError naming the fault."""
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            got = content.get("format") if isinstance(content, Mapping) else type(content).__name__
            raise ValueError(f"a plan must have the 'format' {FORMAT!r}, got {str(got)[:80]!r}")
        known = {name.name for name in fields(cls)} - {"spelling"} | {"format", *Spelling._fields}
        # All or none: a field that is missing in a file is more likely damage than a wish.
        if content.keys() != known:
            wrong = sorted(map(str, known ^ content.keys()))[:3]
            raise ValueError(f"a plan must have exactly the fields {', '.join(sorted(known))}; wrong: {wrong}")
        spelling = Spelling(
            _text(content, "decimal"), _text(content, "thousands"), tuple(_texts(content["na_values"], "na_values"))
        )
        try:
            made = cls(
                tuple(_column(each) for each in _list(content, "columns")),
                tuple(_label(each) for each in _list(content, "labels")),
                content["missing"],
                content["unknown"],
                spelling,
                _text(content, "dtype"),
                _text(content, "delimiter"),
                _text(content, "encoding"),
                content["label_axis"],
                tuple(_step(each) for each in _list(content, "steps")),
                _rows(content["rows"]),
            )
        except TypeError as error:
            raise ValueError(f"a plan: {error}") from error
        if made.steps:
            made._transforms  # noqa: B018 - raises for steps that there are not
        return made

    @classmethod
    def of_names(cls, rows: Any) -> Plan | None:
        """Return the plan of a DataFrame with columns that are all numbers, which it takes as they are by name; else None."""
        if not hasattr(rows, "iloc") or getattr(rows, "ndim", 0) != 2 or not rows.shape[1]:
            return None
        if not all(getattr(dtype, "kind", "") in "biuf" for dtype in rows.dtypes):
            return None
        names = list(map(str, rows.columns))
        if len(set(names)) < len(names):
            return None
        # As they are: a model converts them to its own type.
        return cls(tuple(map(Number, names)), missing="nan", dtype="float64")

    def _shown(self) -> Iterable[tuple[object, ...]]:
        for column in (*self.columns, *self.labels):
            names = column.names
            becomes = "label" if isinstance(column, Label) else f"{len(names)} number{'' if len(names) == 1 else 's'}"
            if isinstance(column, LeftOut):
                becomes = ""
            yield column.name, column.word, column.about, column.gaps, becomes, column.note

    def _foot(self) -> str:
        steps = "".join(f", then {name}" for name, _ in self.steps)
        if not self.columns and not self.labels:  # of arrays, such as images, only what is done to them is known
            return f"arrays{steps}"
        numbers = f"{len(self.names)} number{'s' * (len(self.names) != 1)}"
        return f"{numbers} ({self.dtype}); missing={self.missing!r}, unknown={self.unknown!r}{steps}"

    def __repr__(self) -> str:
        if not self.columns and not self.labels:
            return f"Plan: {self._foot()}"
        rows = [_HEADS, *(tuple(map(str, row)) for row in self._shown())]
        cut = [[text if len(text) <= 60 else f"{text[:57]}..." for text in row] for row in rows]
        widths = [max(len(row[place]) for row in cut) for place in range(len(_HEADS))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cut]
        return "\n".join([*lines, f"Plan: {self._foot()}"])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return table(f"Plan: {self._foot()}", _HEADS if self.columns or self.labels else (), self._shown())

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan.from_dict, (self.to_dict(),)


_FEW: Final = 4  # rows that are encoded cell by cell


def _cell_error(owner: str, column: Column, wrong: Misfit) -> CellError:
    return CellError(owner, wrong.row, f"column {column.name!r} must be {wrong.expected}, got {wrong.cell!r}{wrong.hint}")


_DTYPES: Final = tuple(np.dtype(kind).name for kind in "?bBhHiIlLefd")


def _list(content: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(content[name], list):
        raise ValueError(f"a plan must have a list of {name!r}, got {str(content[name])[:80]!r}")
    return list(content[name])


def _text(content: Mapping[str, Any], name: str) -> str:
    if not isinstance(content[name], str):
        raise ValueError(f"a plan must have a text as {name!r}, got {str(content[name])[:80]!r}")
    return str(content[name])


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"a plan must have texts as {name!r}, got {str(value)[:80]!r}")
    return value


_OF_COLUMN: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,), "note": (str,), "gaps": (int,), "low": (int, float), "high": (int, float), "fill": (int, float),
    "offset": (int, float), "form": (str,), "coerce": (bool,), "truth": (bool,), "whole": (bool,), "dtype": (str,),
    "length": (int,), "standardize": (str,), "split": (str,), "ngrams": (int,), "output": (str,),
}  # fmt: skip
_OF_TEXTS: Final = ("categories", "classes", "vocabulary")
_OF_WORDS: Final = ("vocabulary", "standardize", "split", "ngrams", "output", "weights")
_LARGEST: Final = float(np.finfo(np.float64).max)
_LARGEST_32: Final = float(np.finfo(np.float32).max)
_LONGEST_FORM: Final = 100  # characters: reading one takes time for each


def _column(content: object) -> Column:
    if not isinstance(content, dict) or str(content.get("kind")) not in KINDS or not isinstance(content.get("name"), str):
        raise ValueError(f"a column of a plan must have a 'name' and a 'kind' of {', '.join(KINDS)}, got {str(content)[:80]!r}")
    given = dict(content)
    kind = KINDS[str(given.pop("kind"))]
    known = {each.name for each in fields(kind)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"a column of kind {kind.word!r} has no {str(name)[:80]!r}")
        if name in _OF_TEXTS:
            given[name] = tuple(_texts(value, name))
            if len(set(given[name])) < len(given[name]):
                raise ValueError(f"{name!r} of column {given['name'][:80]!r} of a plan must be different texts")
        elif name == "weights":
            if not isinstance(value, list) or not all(type(each) in (int, float) and abs(each) <= _LARGEST for each in value):
                raise ValueError(f"'weights' of a column of kind {kind.word!r} must be finite numbers, got {str(value)[:80]!r}")
            given[name] = tuple(value)
        # `not abs(value) <= ...` is True for NaN as well.
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and not abs(value) <= _LARGEST:
            raise ValueError(f"{name!r} of a column of kind {kind.word!r} must be finite, got {str(value)[:80]!r}")
        elif not isinstance(value, _OF_COLUMN[name]) or (isinstance(value, bool) and bool not in _OF_COLUMN[name]):
            raise ValueError(f"{name!r} of a column of kind {kind.word!r} must not be {str(value)[:80]!r}")
    if given.get("gaps", 0) < 0 or len(given.get("form", "")) > _LONGEST_FORM:
        raise ValueError(f"a column of a plan must have 'gaps' of at least 0 and a short 'form', got {str(content)[:80]!r}")
    if given.get("dtype", "float32") not in _DTYPES:
        raise ValueError(f"'dtype' of a label must be one of {', '.join(_DTYPES)}, got {str(given['dtype'])[:80]!r}")
    return kind(**given)


def _label(content: object) -> Label:
    made = _column(content)
    if not isinstance(made, Label):
        raise ValueError(f"a label of a plan must be of the kind 'label', got {made.word!r}")
    return made


def _step(content: object) -> tuple[str, dict[str, Any]]:
    if (
        not isinstance(content, list)
        or len(content) != 2
        or not isinstance(content[0], str)
        or not isinstance(content[1], dict)
    ):
        raise ValueError(f"a step of a plan must be a name and its arguments, got {str(content)[:80]!r}")
    return content[0], dict(content[1])


def _rows(content: object) -> dict[str, str]:
    if not isinstance(content, dict) or not all(isinstance(text, str) for pair in content.items() for text in pair):
        raise ValueError(f"a plan must have texts as 'rows', got {str(content)[:80]!r}")
    return dict(content)

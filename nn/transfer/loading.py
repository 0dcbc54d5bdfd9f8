"""Loading of weights into a model: which array is for which variable, a check of all of them, then the copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from nn import arguments
from nn.arguments import did_you_mean
from nn.arrays import Array
from nn.tensor_files import ModelFileError
from nn.transfer import keras_layout, torch_layout
from nn.transfer.parts import Part, Piece, as_they_are, homes, owned, part_of
from nn.transfer.sources import LayoutName, Source, read
from nn.value.graph import Graph, Placeholder
from nn.value.store import not_finite
from nn.value.value import Node, Value, Variable

Names: TypeAlias = Mapping[str, str | None] | Literal["order"] | None
ORDER = "order"
_MOST_SHOWN = 6


@dataclass(frozen=True)
class Loaded:
    """Report of `load_weights`.

    Args:
        taken: for each variable that got a value, by name, the names of the arrays in the source that it is made of.
        missing: names of the variables that kept their values.
        left: names of the arrays of the source that nothing was made of.
    """

    taken: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    left: tuple[str, ...]

    def __repr__(self) -> str:
        kept = f"; kept as they were ({len(self.missing)}): {_listed(self.missing)}" if self.missing else ""
        left = f"; left in the source ({len(self.left)}): {_listed(self.left)}" if self.left else ""
        return f"variables taken: {len(self.taken)}{kept}{left}"


def load(graph: Graph, model: str, source: Any, names: Names, partial: bool, layout: LayoutName | None) -> Loaded:
    """Copy weights into the variables of a graph, all that `Model.load_weights` says or none.

    Args:
        graph: of the model, with memory.
        model: its class, for messages.
        source: as in `load_weights`.
        names: as in `load_weights`.
        partial: as in `load_weights`.
        layout: as in `load_weights`.

    Raises:
        ValueError: where names or shapes do not fit; of a file a `ModelFileError`.
        TypeError: for arguments of other types, and arrays that hold no real numbers.
    """
    arguments.flag("load_weights()", "partial", partial)
    if names is not None and names != ORDER and not isinstance(names, Mapping):
        raise TypeError(
            "load_weights() 'names' must be a mapping from layers of the model to names in the source, or 'order', got "
            f"{arguments.short(names)}"
        )
    found = read(source, layout)
    return _Loading(graph, model, found, names, partial=partial).run()


class _Loading:
    """One call of `load_weights`.

    Args:
        graph: of the model.
        model: its class, for messages.
        source: the arrays.
        names: as in `load_weights`.
        partial: as in `load_weights`.
    """

    def __init__(self, graph: Graph, model: str, source: Source, names: Names, *, partial: bool) -> None:
        self._graph, self._model, self._source, self._partial = graph, model, source, partial
        self._by_order = names == ORDER
        self._names: Mapping[str, str | None] = names if isinstance(names, Mapping) else {}
        self._parts = _PARTS[source.layout](graph)
        self._single: dict[str, str] = {}
        """The names of arrays that were given for variables."""
        self._left_alone: set[str] = set()
        """The variables that `names` leaves as they are."""
        self._under: dict[str, list[str]] = {"": []}
        """The names of the arrays under each place of the source, the widest first."""
        for name in source.arrays:
            path = name.split(source.separator)
            for end in range(len(path)):
                self._under.setdefault(source.separator.join(path[:end]), []).append(name)

    def run(self) -> Loaded:
        """Find, check and copy; return the report."""
        places = self._placed()
        made: list[tuple[Variable, Array]] = []
        taken: dict[str, tuple[str, ...]] = {}
        missing: list[str] = []
        # A dict, as a set that keeps the order of the source.
        unused = dict.fromkeys(self._source.arrays)
        for number, part in enumerate(self._parts):
            place = places.get(number)
            for piece in self._form(part, place):
                names = self._arrays_of(piece, place)
                if names is None:
                    missing.append(piece.variable.name)
                    continue
                made.append((piece.variable, self._converted(part, piece, names)))
                taken[piece.variable.name] = tuple([self._shown(name) for name in names])
                for name in names:
                    unused.pop(name, None)
            for name in part.ignored if place is not None else ():
                unused.pop(self._full(place, name), None)
        report = Loaded(taken, tuple(missing), tuple([self._shown(name) for name in unused]))
        self._check(report)
        if problem := not_finite(made):
            self._refuse(problem)
        for variable, array in made:
            variable.set_value(array)
        return report

    def _check(self, report: Loaded) -> None:
        """Raise ValueError where nothing was taken or, unless that is asked for, where not all was."""
        shapes = {self._shown(name): array.shape for name, array in self._source.arrays.items()}
        # Cut, as names of a source may be of any length.
        left = _listed([f"{name[:80]} {shapes[name]}" for name in report.left])
        if not report.taken:
            wanted = _listed([self._wanted(name) for name in report.missing])
            self._refuse(f"it has none of the variables: the model has {wanted}, the source {left}{self._advice()}")
        if self._partial:
            return
        for name in report.missing:
            if name not in self._left_alone:
                others = f"; left there are {left}" if report.left else ""
                self._refuse(f"only the model has a variable {self._wanted(name)}{others}{self._advice()}")
        if report.left:
            self._refuse(f"only the {self._kind} has a variable '{report.left[0][:80]}'{self._advice()}")

    def _wanted(self, name: str) -> str:
        """Return a variable with the arrays that it would be made of, for messages."""
        recipe = next(piece.recipe for part in self._parts for piece in part.forms[0] if piece.variable.name == name)
        if self._source.layout == "nn":
            return f"'{name}' {recipe.shapes[0]}"
        made = " and ".join(f"{each} {shape}" for each, shape in zip(recipe.names, recipe.shapes, strict=True))
        return f"'{name}', made of {made}"

    def _advice(self) -> str:
        # So end names of torch, and none of this package.
        looks_foreign = self._source.layout == "nn" and any(name.endswith((".weight", "_l0")) for name in self._source.arrays)
        hint = "; for names and axes of torch say layout='torch'" if looks_foreign else ""
        part = "" if self._partial else ", partial=True takes what is in both"
        return f"{hint} (names= tells which is which{part})"

    # names to parts

    def _placed(self) -> dict[int, str]:
        """Return the place in the source of each part that has one: those told, those of the same name, those that fit."""
        places: dict[int, str] = {}
        told = self._told()
        agreed = False
        for number, part in enumerate(self._parts):
            given = told[part.name] if part.name in told else None if self._by_order else self._same_name(part)
            if given is not None:
                places[number] = given
                agreed |= part.name not in told
        if not self._by_order:
            renamed = self._renamed(places, told)
            places.update(renamed)
            agreed |= bool(renamed)
        keras = self._source.layout == "keras"
        rest = [
            number
            for number, part in enumerate(self._parts)
            if not (number in places or part.name in told or self._is_single(part))
            # Where names are those of the source, what bears another one is another layer.
            and (not agreed or (keras and part.numbered))
        ]
        if rest and (self._source.layout != "nn" or self._by_order):
            places.update(self._fitting(rest, set(places.values())))
        return places

    def _told(self) -> dict[str, str | None]:
        """Return the places of the parts that `names` tells, and note the arrays that it tells for variables."""
        layers = {part.name: part for part in self._parts}
        variables = {piece.variable.name: piece for part in self._parts for form in part.forms for piece in form}
        told: dict[str, str | None] = {}
        for name, given in self._names.items():
            if given is not None and not isinstance(given, str):
                raise TypeError(f"load_weights() 'names' must have texts or None as values, got {arguments.short(given)}")
            if name in layers and name:
                told[name] = None if given is None else self._place(layers[name], given)
                if given is None:
                    self._left_alone.update(piece.variable.name for piece in layers[name].forms[0])
            elif name in variables:
                if given is None:
                    self._left_alone.add(name)
                self._single[name] = "" if given is None else self._array(name, given, variables[name])
            else:
                known = list(filter(None, layers))
                raise ValueError(
                    f"load_weights() 'names' must name layers or variables of the model ({_listed(known)}), "
                    f"got {arguments.short(name)}{did_you_mean(name, [*known, *variables])}"
                )
        return told

    def _place(self, part: Part, given: str) -> str:
        """Return the path in the source that a name stands for."""
        given = self._source.aliases.get(given, given)
        place = self._holding(part, given)
        if place is not None or given in self._under:
            return given if place is None else place
        known = [*self._source.aliases, *filter(None, self._under)]
        raise ValueError(
            f"load_weights() 'names' gives {arguments.short(given)} for '{part.name}', which {self._source.described} does not "
            f"have; it has {_listed(known)}{did_you_mean(given, known)}"
        )

    def _holding(self, part: Part, place: str) -> str | None:
        """Return a place, or that of the first layer of a recurrence there, if arrays of a part lie there; else None."""
        own = [name for form in part.forms for piece in form for name in piece.recipe.names]
        for each in (place, f"{place}{self._source.separator}l0"):
            if any(self._full(each, name) in self._source.arrays for name in own):
                return each
        return None

    def _array(self, name: str, given: str, piece: Piece) -> str:
        if len(piece.recipe.names) > 1:
            raise ValueError(
                f"load_weights() 'names' must name the layer of '{name}', which is made of {len(piece.recipe.names)} arrays, "
                f"{_listed(piece.recipe.names)}"
            )
        found = {shown: array for array, shown in self._source.shown.items()} | {each: each for each in self._source.arrays}
        if given not in found:
            raise ValueError(
                f"load_weights() 'names' gives {arguments.short(given)} for '{name}', which {self._source.described} does not "
                f"have; it has {_listed(found)}{did_you_mean(given, found)}"
            )
        return found[given]

    def _is_single(self, part: Part) -> bool:
        return any(piece.variable.name in self._single for form in part.forms for piece in form)

    def _same_name(self, part: Part) -> str | None:
        """Return the place in the source with the name of a part."""
        if self._source.layout == "keras" and part.numbered:
            # Numbers count from 0 there, and over all models of a program: only names that were given can be the same.
            return None
        return self._holding(part, self._source.aliases.get(part.name, part.name))

    def _renamed(self, places: Mapping[int, str], told: Mapping[str, str | None]) -> dict[int, str]:
        """Return the places of parts that a model around theirs renamed, where the source has their former names.

        Args:
            places: those of other parts, each of which counts once.
            told: the parts that `names` tells.
        """
        bearers = Counter(name for part in self._parts for name in (part.name, part.former))
        found = {}
        for number, part in enumerate(self._parts):
            # Of two models within the same one both may have had the name: then it tells nothing.
            if part.former and bearers[part.former] == 1 and number not in places and part.name not in told:
                place = self._same_name(part._replace(name=part.former))
                if place is not None and place not in places.values():
                    found[number] = place
        return found

    def _fitting(self, rest: Sequence[int], used: set[str]) -> dict[int, str]:
        """Return the places of parts by kinds and shapes; raise ValueError where more than one choice would fit."""
        fits: dict[int, list[str]] = {}
        prefixes = [place for place in self._under if place not in used]
        for number in rest:
            part = self._parts[number]
            kinds = [place for place in prefixes if part.kind and keras_layout.kind_of(place) == part.kind]
            # A source that does not name kinds may have the layer at any place.
            fits[number] = [place for place in kinds or prefixes if self._fits(part, place)]
        found: dict[int, str] = {}
        while True:
            # What can be one thing only is it, and is no choice for the others.
            sure = {number: places[0] for number, places in fits.items() if len(places) == 1}
            doubled = [number for number, place in sure.items() if list(sure.values()).count(place) > 1]
            for number in doubled:
                self._refuse_choice([n for n in doubled if sure[n] == sure[number]], [sure[number]])
            if not sure:
                break
            found.update(sure)
            fits = {
                number: [place for place in places if place not in sure.values()]
                for number, places in fits.items()
                if number not in sure
            }
        while any(fits.values()):
            places = next(each for each in fits.values() if each)
            # As many layers as places, which fit alike: if anything can tell them apart it is their order.
            alike = [number for number, each in fits.items() if each == places]
            if len(alike) != len(places) or not (self._by_order or self._is_ordered(places)):
                self._refuse_choice(alike, places)
            found.update(zip(alike, places, strict=True))
            fits = {
                number: [place for place in each if place not in found.values()]
                for number, each in fits.items()
                if number not in found
            }
        return found

    def _refuse_choice(self, numbers: Sequence[int], places: Sequence[str]) -> NoReturn:
        layers = [self._parts[number].name for number in numbers]
        same = len(numbers) == len(places)
        order = f", or names='order' takes them in their order, {layers[0]} as {places[0]}" if same else ""
        self._refuse(
            f"{_quoted(places)} fit{'' if len(places) > 1 else 's'} {_quoted(layers)} alike, by kind and shape; say which is "
            f"which, names={{{layers[0]!r}: {places[0]!r}, ...}}{order}"
        )

    def _is_ordered(self, places: Sequence[str]) -> bool:
        """Return whether layers of a kind are numbered in the source as here: in files of Keras, of models that are a chain."""
        if self._source.layout != "keras" or not _is_chain(self._graph):
            return False
        within = {(place.rpartition("/")[0], keras_layout.kind_of(place)) for place in places}
        return len(within) == 1

    def _fits(self, part: Part, place: str) -> bool:
        """Return whether all that lies at a place of the source, and nothing else, makes the variables of a part."""
        there = {*self._under[place]} - {self._full(place, each) for each in part.ignored}
        for form in part.forms:
            shapes = {
                self._full(place, name): shape
                for piece in form
                for name, shape in zip(piece.recipe.names, piece.recipe.shapes, strict=True)
            }
            if there == shapes.keys() and all(self._source.arrays[name].shape == shape for name, shape in shapes.items()):
                return True
        return False

    # arrays of parts

    def _form(self, part: Part, place: str | None) -> tuple[Piece, ...]:
        """Return the form in which a source holds a part: the first of which something is there."""
        for form in part.forms if place is not None else ():
            if all(self._full(place, name) in self._source.arrays for piece in form for name in piece.recipe.names):
                return form
        return part.forms[0]

    def _arrays_of(self, piece: Piece, place: str | None) -> list[str] | None:
        """Return the names of the arrays of a variable; None where the source has none of them."""
        if piece.variable.name in self._single:
            given = self._single[piece.variable.name]
            return [given] if given else None
        if place is None:
            return None
        names = [self._full(place, name) for name in piece.recipe.names]
        there = [name for name in names if name in self._source.arrays]
        if there and len(there) < len(names):
            lacking = next(name for name in names if name not in there)
            self._refuse(f"'{piece.variable.name}' is made of {_quoted(names)}, of which '{lacking}' is not there")
        return there or None

    def _converted(self, part: Part, piece: Piece, names: Sequence[str]) -> Array:
        """Return the value of a variable; raise ValueError where an array has another shape."""
        arrays = [self._source.arrays[name] for name in names]
        for name, array, shape in zip(names, arrays, piece.recipe.shapes, strict=True):
            if array.shape != shape:
                own = "" if shape == piece.variable.shape else f", as the variable has {piece.variable.shape}"
                skip = f"; names={{{part.name!r}: None}} leaves the layer as it is" if part.name and self._partial else ""
                called = f"'{piece.variable.name}'"
                if self._shown(name) != piece.variable.name:
                    called = f"'{self._shown(name)[:80]}' for '{piece.variable.name}'"
                self._refuse(f"{called} must have shape {shape}{own}, got {array.shape}{skip}")
        convert = piece.recipe.convert
        if convert is not None:
            # Sums of biases in float64: half precision has too few bits for them.
            wide = [array.astype(np.float64) if len(arrays) > 1 else array for array in arrays]
            found = np.asarray(convert(*wide))
        else:
            found = arrays[0]
        # In the type of the model before anything is copied: a number that it does not hold is found in time.
        dtype = piece.variable.value.dtype
        # Infinity is found below, where the error names the array.
        with np.errstate(over="ignore"):
            made = found.astype(dtype, copy=False)
        if not np.isfinite(made).all() and np.isfinite(found).all():
            self._refuse(f"'{self._shown(names[0])[:80]}' must hold numbers of {dtype}, got up to {np.abs(found).max():g}")
        return made

    def _full(self, place: str | None, name: str) -> str:
        return f"{place}{self._source.separator}{name}" if place else name

    def _shown(self, name: str) -> str:
        return self._source.shown.get(name, name)

    @property
    def _kind(self) -> str:
        return "mapping" if self._source.described == "the mapping" else "file"

    def _refuse(self, problem: str) -> NoReturn:
        error = ValueError if self._kind == "mapping" else ModelFileError
        raise error(f"{self._source.described} does not fit {self._model}: {problem}")


def _own_parts(graph: Graph) -> list[Part]:
    """Return the parts of a model as files of this package name them."""
    found = []
    for owner, variables in owned(graph):
        form = as_they_are(variables)
        found.append(part_of(owner, [[Piece(each, form[each.local_name or ""]) for each in variables]]))
    return found


_PARTS = {"nn": _own_parts, "torch": torch_layout.parts, "keras": keras_layout.parts}


def _is_chain(graph: Graph) -> bool:
    """Return whether each layer of a model takes the result of the one before, so that their order is that of any library."""
    if len(graph.inputs) > 1 or len(graph.outputs) > 1:
        return False
    value: Value = graph.output
    met: set[object] = {*homes(graph)}
    while isinstance(value, Node):
        met.update(value.layers)
        taken = [each for each in value.given if isinstance(each, (Node, Placeholder))]
        if len(taken) != 1:
            return False
        value = taken[0]
    # Layers within layers stand on no way from the input to the output.
    return met.issuperset(graph.layers)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... ({len(names)})" if len(names) > _MOST_SHOWN else ""
    return ", ".join(str(name)[:80] for name in names[:_MOST_SHOWN]) + more if names else "none"


def _quoted(names: Iterable[str]) -> str:
    return _listed([f"'{name}'" for name in names])

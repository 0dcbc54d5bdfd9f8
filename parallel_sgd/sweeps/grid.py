"""Grid of a sweep: the values that each setting takes, and their combinations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from network.names import did_you_mean
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model

from ..options.fields import Option
from ..options.job_options import LOCAL_NODES, MEANT, NODES_OF_A_FILE, OF_THE_JOB, OF_THE_MODEL
from ..options.job_options import options as known_options
from .labels import DEFAULT, label_of

__all__ = [
    "DEFAULT",
    "PARAMETERS",
    "PARTS",
    "WORKERS",
    "Combination",
    "Grid",
    "checked_options",
    "checked_seeds",
    "combinations",
]

Grid: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Settings by name, each with the values that it takes; or several such grids, whose combinations are added up."""
WORKERS: Final = "workers"
"""Setting that is no option: the number of workers of a run."""
PARTS: Final[Mapping[str, type]] = {"model": Model, "dataset": AbsDataset, "transform": AbsTransformer}
"""Settings that are parts of the job."""
PARAMETERS: Final = ("gd_params", "codec_extra_parameters")
"""Options with parameters by name, each of which may be a setting of its own."""
MOST_RUNS: Final = 100_000
#: Options that a sweep has an argument of its own for.
_INSTEAD: Final = {
    "seed": "seeds=",
    "nodes": "nodes= of the sweep, and 'workers' in the grid",
    "directory": "directory= of the sweep",
    "mission_title": "title=",
    "job_title": "title=",
    "verbose": "verbose= of the sweep",
}
#: Options that are for a single job.
_ALONE: Final = ("resume", "page", "discovery")
#: Settings for what `parallel()` answers and a sweep has otherwise, "" for none.
_FOR_MANY: Final = {
    **_INSTEAD,
    **dict.fromkeys(_ALONE, ""),
    LOCAL_NODES: WORKERS,
    NODES_OF_A_FILE: _INSTEAD["nodes"],
    OF_THE_JOB: "dataset=",
    OF_THE_MODEL: "",
}


@dataclass(frozen=True)
class Combination:
    """Combination of the values of a grid.

    Args:
        labels: by setting, the text that stands for its value.
        values: by option, part or `workers`, its value; parameters by name are in the value of their option.
    """

    labels: Mapping[str, str]
    values: Mapping[str, Any]

    @property
    def told(self) -> str:
        """Combination as a text, such as `codec=topk, block_size=16`."""
        return ", ".join(f"{name}={label}" for name, label in self.labels.items() if label != DEFAULT)


@dataclass(frozen=True)
class _Axis:
    """Setting of a grid: its column in tables, the option with the parameter that it sets ("" for none), and its values."""

    name: str
    column: str
    option: str
    values: Mapping[str, Any]


def checked_seeds(seeds: object) -> list[int]:
    """Return the seeds that a number, or several seeds, stand for. Raises: ValueError, TypeError."""
    # True is an int, and as a number of seeds a slip
    several: object = range(seeds) if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise TypeError(f"sweep() 'seeds' must be a number of seeds, or several seeds, got {seeds!r}")
    found = list(several)
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
            raise ValueError(f"sweep() 'seeds' must be integers of at least 0, got {seed!r}")
    if not found:
        raise ValueError(f"sweep() 'seeds' must have at least one seed, got {seeds!r}")
    if len(set(found)) < len(found):
        raise ValueError(f"sweep() 'seeds' must differ, got {found}")
    return found


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of all runs by the names that `JobOptions` has. Raises: TypeError, ValueError."""
    for name in options:
        _check_name(name, "sweep()", parts=False)
    found = dict(options)
    if "epochs" in found:
        if "epoch" in found:
            raise ValueError(f"sweep() takes 'epoch' or 'epochs', got both, {found['epoch']!r} and {found['epochs']!r}")
        found["epoch"] = found.pop("epochs")
    return found


def combinations(grid: Grid, options: Mapping[str, Any]) -> list[Combination]:
    """Return the combinations of a grid, in order: the last setting changes first.

    Args:
        grid: the grid, or several.
        options: those that all runs have.

    Raises: ValueError or TypeError naming the setting, the expectation and the value.
    """
    grids = [grid] if isinstance(grid, Mapping) else grid
    if isinstance(grids, (str, bytes)) or not isinstance(grids, Sequence) or not all(isinstance(g, Mapping) for g in grids):
        raise TypeError(f"sweep() 'grid' must be a dict of settings with their values, or a list of such, got {grid!r:.200}")
    every = [[axis for name, values in one.items() for axis in _axes(name, values, options)] for one in grids]
    if not any(every):
        raise ValueError("sweep() 'grid' must have at least one setting with its values, got an empty one")
    # counted before the combinations are made, of which a few settings could have more than memory holds
    count = 0
    for axes in every:
        size = 1
        for axis in axes:
            size *= len(axis.values)
        count += size
    if count > MOST_RUNS:
        raise ValueError(f"sweep() 'grid' may have {MOST_RUNS:,} combinations, got {count:,}")
    columns = list(dict.fromkeys(axis.column for axes in every for axis in axes))
    found: dict[tuple[str, ...], Combination] = {}
    for axes in every:
        for chosen in product(*(axis.values.items() for axis in axes)):
            given = {axis.column: label for axis, (label, _) in zip(axes, chosen, strict=True)}
            # a list of grids: a run has every column, also those that only another grid varies
            labels = {column: given.get(column, DEFAULT) for column in columns}
            values: dict[str, Any] = {}
            for axis, (_, value) in zip(axes, chosen, strict=True):
                if axis.option:
                    values[axis.option] = {**values.get(axis.option, options.get(axis.option) or {}), axis.name: value}
                else:
                    values[axis.name] = value
            # grids may overlap: what they have in common is run once
            found.setdefault(tuple(labels.values()), Combination(labels, values))
    return list(found.values())


def _axes(name: object, values: Any, options: Mapping[str, Any]) -> Iterator[_Axis]:
    where = f"sweep() 'grid' {name!r}"
    _check_name(name, "sweep() 'grid'", parts=True)
    name = "epoch" if name == "epochs" else str(name)
    # a dict of parameters has an axis for each, so a table has a column for each
    if name in PARAMETERS and isinstance(values, Mapping):
        base = options.get(name) or {}
        if not isinstance(base, Mapping):
            raise ValueError(f"{where} sets parameters by name, so '{name}' must have names, too, got {base!r}")
        if not values:
            raise ValueError(f"{where} must have at least one parameter with its values, got none")
        for key, each in values.items():
            # a parameter may be called like an option, which has a column, too
            column = str(key) if not _is_known(str(key)) else f"{name}.{key}"
            yield _Axis(key, column, name, _labelled(f"{where} {key!r}", each, None))
        return
    if name in options:
        raise ValueError(f"{where} is among the options of all runs, too, got {options[name]!r}; leave one of them out")
    about = dict(known_options()).get(name)
    yield _Axis(name, name, "", _labelled(where, values, about, PARTS.get(name)))


def _labelled(where: str, values: Any, about: Option | None, part: type | None = None) -> Mapping[str, Any]:
    """Return the values of a setting by label. Raises: ValueError, TypeError naming the setting."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{where} must be a list of values, got {values!r:.200}; write [{values!r:.200}]")
    pairs = [(str(label), value) for label, value in values.items()] if isinstance(values, Mapping) else None
    if pairs is None:
        pairs = [(label_of(value, about), value) for value in values]
    if not pairs:
        raise ValueError(f"{where} must have at least one value, got none")
    found: dict[str, Any] = {}
    for label, value in pairs:
        if part is not None and value is not None and not isinstance(value, part):
            raise TypeError(f"{where} must have objects of {part.__name__}, got {value!r:.200}")
        if label in found:
            raise ValueError(
                f"{where} must have values with different labels, got {label!r} twice; a dict such as {{'a': .., 'b': ..}} "
                "gives them labels"
            )
        found[label] = value
    return found


def _is_known(name: str) -> bool:
    return name in dict(known_options()) or name in PARTS or name in (WORKERS, "seed")


def _check_name(name: object, where: str, *, parts: bool) -> None:
    known = [option for option, _ in known_options() if option not in _INSTEAD and option not in _ALONE]
    known += [WORKERS, *(PARTS if parts else ())]
    if name in _INSTEAD:
        raise ValueError(f"{where} cannot have {name!r}: a sweep takes {_INSTEAD[str(name)]}")
    if name in _ALONE:
        raise ValueError(f"{where} cannot have {name!r}, which is for a single job")
    if name not in known:
        meant = {word: _FOR_MANY.get(each, each) for word, each in MEANT.items() if word not in known}
        hint = did_you_mean(name, [*known, *meant], quoted=False, meant=meant)
        raise TypeError(f"{where} has no option {name!r}{hint}")

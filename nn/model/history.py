"""History of a training: rows, learning curves, pictures in a notebook; and states that callbacks keep, so that a run which
is continued from a model file decides as if it never stopped.
"""

from __future__ import annotations

import io
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from nn import arguments
from nn.arrays import Array
from nn.extension import listed

MOST_SHOWN = 20
"""Epochs that a notebook shows, if there are not more."""

VALIDATION = "val_"
"""Begin of the names of results on validation data."""


_KERAS = MappingProxyType({"Loss": "loss", "val_Loss": "val_loss"})
_FROM_KERAS = MappingProxyType({word: name for name, word in _KERAS.items()})


class Results(dict[str, float]):
    """Loss and metrics by their names. `loss` and `val_loss`, as Keras writes them, are other words for `Loss` and `val_Loss`.

    >>> logs = Results({"Loss": 0.5, "val_Loss": 0.75})
    >>> logs["loss"], logs.get("val_loss"), "loss" in logs, list(logs)
    (0.5, 0.75, True, ['Loss', 'val_Loss'])
    """

    # Only where Keras's word is no key of its own.
    def __missing__(self, name: str) -> float:
        if name in _FROM_KERAS and _FROM_KERAS[name] in self:
            return self[_FROM_KERAS[name]]
        raise KeyError(f"no result {name!r}; there are {', '.join(self) or 'none'}{arguments.did_you_mean(name, self)}")

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (name in _FROM_KERAS and super().__contains__(_FROM_KERAS[str(name)]))

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a result by either of its words.

        Args:
            name: that of the result.
            default: returned where there is no such result.
        """
        # `in` knows both words, the `get` of a dict only the keys.
        if name not in self:
            return default
        return self[name]


class History:
    """One row per epoch: `epoch` (from 1), `Loss`, the metrics, and with validation data the same as `val_...`.

    `seed` is the seed of the last `fit`, from which order of samples and dropout came.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=3, verbose=0)
    >>> history.columns(), history["epoch"]
    (['epoch', 'Loss'], [1, 2, 3])
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.seed: int | None = None

    def add(self, epoch: int, results: Mapping[str, float]) -> None:
        """Append the results of an epoch.

        Args:
            epoch: number of the epoch.
            results: its figures, by name.
        """
        self.rows.append({"epoch": epoch, **results})

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the word here for one of Keras."""
            return arguments.missing_attribute(self, name)

    def __dir__(self) -> list[str]:
        """List the public names, for completion."""
        return listed(type(self), super().__dir__())

    @property
    def history(self) -> dict[str, list[float]]:
        """Return all columns but `epoch` by the names that they have in Keras's `history.history`, `loss` and `val_loss`."""
        return {_KERAS.get(name, name): self[name] for name in self.columns() if name != "epoch"}

    def columns(self) -> list[str]:
        """Return the names of all columns in the order in which they first came up."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per epoch, `epoch` its index; results that an epoch does not have are NaN."""
        import pandas  # noqa: PLC0415 - needed here only

        frame = pandas.DataFrame(self.rows, columns=self.columns() or ["epoch"])
        return frame.set_index("epoch")

    def plot(self, path: str | os.PathLike[str] | None = None) -> None:
        """Draw each result over the epochs, training and validation together, into a file of the kind its ending names.

        Without `path` they are shown below the cell of a notebook; ValueError where there is none.
        Needs matplotlib, the extra `plot`; raises ImportError where it is missing, ValueError without any epoch.
        """
        if not self.rows:
            raise ValueError("History.plot() needs at least one epoch, got none")
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ImportError("History.plot() needs matplotlib: pip install matplotlib") from error

        names = dict.fromkeys(name.removeprefix(VALIDATION) for row in self.rows for name in row if name not in self._apart)
        figure = Figure(figsize=(5 * len(names), 3.6), layout="constrained")
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        for panel, name in zip(panels, names, strict=True):
            for label, places, values, width in self._lines(name):
                panel.plot(places, values, label=label, marker="o" if len(places) == 1 else None, linewidth=width)
            panel.set_xlabel(self._axis)
            panel.set_title(name)
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.grid(alpha=0.3)
            panel.legend()
        put_out(figure, "History.plot()", path, "history.png")

    _axis = "epoch"

    @property
    def _apart(self) -> frozenset[str]:
        """Columns that have no panel."""
        return frozenset({"epoch"})

    def _lines(self, name: str) -> Iterator[tuple[str, list[float], list[float], float]]:
        """Yield the lines of a panel: label, places, values, width."""
        for key, label in ((name, "training"), (VALIDATION + name, "validation")):
            points = [(row["epoch"], row[key]) for row in self.rows if key in row]
            if points:
                epochs, values = zip(*points, strict=True)
                yield label, list(epochs), list(values), 1.5

    def _repr_html_(self) -> str:
        """Return the table for a notebook: a row per epoch, of many the first and the last."""
        from nn.html import table  # noqa: PLC0415 - for people who look: workers do not

        names, shown = self.columns(), self.rows if len(self.rows) <= MOST_SHOWN else [*self.rows[:5], *self.rows[-5:]]
        title = f"{type(self).__name__}: {len(self.rows)} epochs" + ("" if shown is self.rows else ", 10 of them")
        rows = [[int(row["epoch"]), *(float(row.get(name, math.nan)) for name in names if name != "epoch")] for row in shown]
        return table(title, ["epoch", *(name for name in names if name != "epoch")], rows)

    def __getitem__(self, name: str) -> list[float]:
        """Return one column, for example `history['val_accuracy']`; `loss` is `Loss`, as in Keras."""
        name = next((own for own, other in _KERAS.items() if other == name), name)
        if not any(name in row for row in self.rows):
            names = ", ".join(sorted(self.columns())) or "none yet"
            raise KeyError(f"no column {name!r}; there are {names}{arguments.did_you_mean(name, self.columns())}")
        return [row[name] for row in self.rows if name in row]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        last = f", last {self.rows[-1]}" if self.rows else ""
        return f"History({len(self.rows)} epochs{last})"


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    # not imported: a process that has not loaded IPython is no notebook
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def put_out(figure: Any, owner: str, path: str | os.PathLike[str] | None, example: str) -> None:
    """Write a figure of matplotlib into a file, or show it below the cell of a notebook.

    Args:
        figure: the figure.
        owner: function that has drawn it, for messages.
        path: the file, of the kind that its ending names; None for the notebook.
        example: a file name, for messages.

    Raises: ValueError without a path outside of notebooks.
    """
    if path is not None:
        figure.savefig(path, dpi=120)
        return
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    show(owner, {"image/svg+xml": picture.getvalue()}, example)


def show(owner: str, picture: Mapping[str, str | bytes], example: str) -> None:
    """Put a picture, in any of some formats by MIME type, below the cell that runs.

    Raises ValueError outside a notebook, where `owner` needs the path of a file, such as `example`.
    """
    if not in_notebook():
        raise ValueError(f"{owner} needs a 'path' outside a notebook, such as {example!r}, got None")
    from IPython.display import display  # noqa: PLC0415 - is there in a notebook

    display(dict(picture), raw=True)


State: TypeAlias = Mapping[str, Array | int | float]


class Stateful(Protocol):
    """Object with a state that a model file keeps: a callback."""

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the state, empty where there is none."""

    def load_state_dict(self, state: State) -> None:
        """Start with a state that `state_dict` returned, afresh with an empty one."""


class CallbackStates:
    """The states of the callbacks of the running `fit`; before one runs, those of the file that the model came from.

    A callback is known by its class and, where there are several of a class, its number among them.
    """

    def __init__(self, loaded: Mapping[str, State] | None = None) -> None:
        self._loaded = dict(loaded or {})
        self._live: dict[str, Stateful] = {}

    @contextmanager
    def attached(self, callbacks: Sequence[Stateful]) -> Iterator[None]:
        """Give the callbacks their states, and follow them as long as the context lasts."""
        numbers: Counter[str] = Counter()
        for callback in callbacks:
            name = type(callback).__name__
            numbers[name] += 1
            # The first without a number, so that a file fits a `fit` with one callback of the class.
            self._live[name if numbers[name] == 1 else f"{name}_{numbers[name]}"] = callback
        try:
            for name, callback in self._live.items():
                # Also without a state: then the callback begins afresh, although an earlier `fit` used it.
                callback.load_state_dict(self._loaded.get(name, {}))
            # Taken over: from here on the callbacks tell the states.
            self._loaded = {}
            yield
        finally:
            # The callbacks belong to one `fit`.
            self._live = {}

    @property
    def followed(self) -> bool:
        """Whether a training with callbacks is running."""
        return bool(self._live)

    def __getstate__(self) -> dict[str, object]:
        """Return the states as a file holds them: callbacks follow one model, not its copies."""
        return {"_loaded": self.current(), "_live": {}}

    def current(self) -> dict[str, State]:
        """Return the states as they are now, callbacks without any left out."""
        if not self._live:
            return dict(self._loaded)
        states = {name: callback.state_dict() for name, callback in self._live.items()}
        return {name: state for name, state in states.items() if state}

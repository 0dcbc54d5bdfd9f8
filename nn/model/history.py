"""What happened during training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nn import arguments
from nn.model.curves import draw_curves


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
        """Append the results of an epoch."""
        self.rows.append({"epoch": epoch, **results})

    def columns(self) -> list[str]:
        """Return the names of all columns in the order in which they first came up."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per epoch, `epoch` its index; what an epoch does not have is NaN."""
        import pandas  # noqa: PLC0415 - needed here only

        frame = pandas.DataFrame(self.rows, columns=self.columns() or ["epoch"])
        return frame.set_index("epoch")

    def plot(self, path: str | os.PathLike[str] | None = None) -> None:
        """Draw each result over the epochs, training and validation together, into a file of the kind its ending names.

        Without `path` they are shown below the cell of a notebook; ValueError where there is none.
        Needs matplotlib, the extra `plot`; raises ImportError where it is missing, ValueError without any epoch.
        """
        draw_curves(self.rows, path)

    def __getitem__(self, name: str) -> list[float]:
        """Return one column, for example `history['val_accuracy']`."""
        if not any(name in row for row in self.rows):
            names = ", ".join(sorted(self.columns())) or "none yet"
            raise KeyError(f"no column {name!r}; there are {names}{arguments.did_you_mean(name, self.columns())}")
        return [row[name] for row in self.rows if name in row]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        last = f", last {self.rows[-1]}" if self.rows else ""
        return f"History({len(self.rows)} epochs{last})"

"""What happened during training."""

from collections.abc import Mapping


class History:
    """One row per epoch: `epoch` (from 1), `Loss`, the metrics, and with validation data the same as `val_...`.

    `seed` is the seed of the last `fit`, from which order of samples and dropout came.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.seed: int | None = None

    def add(self, epoch: int, results: Mapping[str, float]) -> None:
        """Append the results of an epoch."""
        self.rows.append({"epoch": epoch, **results})

    def __getitem__(self, name: str) -> list[float]:
        """Return one column, for example `history['val_accuracy']`."""
        if not any(name in row for row in self.rows):
            names = sorted({key for row in self.rows for key in row})
            raise KeyError(f"no column {name!r}; there are {', '.join(names) or 'none yet'}")
        return [row[name] for row in self.rows if name in row]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        last = f", last {self.rows[-1]}" if self.rows else ""
        return f"History({len(self.rows)} epochs{last})"

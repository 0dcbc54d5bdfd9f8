"""Learning curves as a picture."""

import io
import os
from collections.abc import Mapping, Sequence

from nn.notebook import show

VALIDATION = "val_"
"""What the names of results on validation data begin with."""


def draw_curves(rows: Sequence[Mapping[str, float]], path: str | os.PathLike[str] | None) -> None:
    """Write, or show in a notebook, a picture with one panel per result, its training and validation curve over the epochs.

    Raises ImportError where matplotlib is missing, ValueError without any epoch, for an ending matplotlib does not know, or
    without `path` where there is no notebook.
    """
    if not rows:
        raise ValueError("History.plot() needs at least one epoch, got none")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("History.plot() needs matplotlib: pip install parallel-sgd[plot]") from error

    names = dict.fromkeys(name.removeprefix(VALIDATION) for row in rows for name in row if name != "epoch")
    figure = Figure(figsize=(5 * len(names), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for key, label in ((name, "training"), (VALIDATION + name, "validation")):
            points = [(row["epoch"], row[key]) for row in rows if key in row]
            if points:
                epochs, values = zip(*points, strict=True)
                panel.plot(epochs, values, label=label, marker="o" if len(points) == 1 else None)
        panel.set_xlabel("epoch")
        panel.set_title(name)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.3)
        panel.legend()
    if path is not None:
        figure.savefig(path, dpi=120)
        return
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    show("History.plot()", {"image/svg+xml": picture.getvalue()}, "history.png")

"""Description of a population: which client has which samples, in words, as a table and as a picture."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model
from nn.model.history import put_out

from .clients import Clients
from .population import Population, Rows, class_counts, deal

__all__ = ["Description", "describe"]

_PREVIEW: Final = 1000  # rounds that are looked at


class Description:
    """Samples of each client, by class where labels are classes; printed, it says how they are spread.

    Args:
        clients: the option of the job.
        rows: numbers of the samples of each client.
        classes: number of samples of each client and class, or None.
        seed: that of the job.

    Attributes:
        sizes: number of samples of each client, of shape (clients,).
        classes: number of samples of each client and class, of shape (clients, classes); None for labels that are no classes,
            or more than 100.
        rows: numbers of the samples of each client.
    """

    def __init__(self, clients: Clients, rows: list[Rows], classes: NDArray[np.int64] | None, seed: int) -> None:
        self._clients, self._seed = clients, seed
        self.rows, self.classes = rows, classes
        self.sizes = np.array([len(each) for each in rows], np.int64)

    def __str__(self) -> str:
        sizes, clients = self.sizes, self._clients
        quarters = np.quantile(sizes, (0, 0.25, 0.5, 0.75, 1)).round().astype(int).tolist()
        said = [
            f"{clients.count} clients with {sizes.sum()} samples, dealt by {clients.dealer!r}",
            f"samples of a client: {', '.join(map(str, quarters))} (least, quarter, middle, three quarters, most)",
        ]
        if empty := int((sizes == 0).sum()):
            said.append(f"{empty} clients have none, and are never trained")
        if self.classes is not None and sizes.sum():
            held = (self.classes > 0).sum(axis=1)
            said.append(f"classes of a client: {held.min()} to {held.max()} of {self.classes.shape[1]}, mean {held.mean():.1f}")
            shares = self.classes.sum(axis=0) / sizes.sum()
            own = self.classes / np.maximum(sizes, 1)[:, None]
            # half the sum of the differences of two distributions (total variation), a mean over samples
            distance = (np.abs(own - shares).sum(axis=1) / 2 * sizes).sum() / sizes.sum()
            said.append(f"distance from the whole training set: {distance:.2f} (0: the same classes, 1: none in common)")
        population = Population(clients, sizes, self._seed, 1)
        preview = range(min(clients.rounds, _PREVIEW))
        rounds = [population.chosen(number) for number in preview]
        counts = [len(chosen) for chosen in rounds]
        least, most = min(counts), max(counts)
        samples = np.mean([sizes[chosen].sum() for chosen in rounds])
        chosen = f"{least}" if least == most else f"{least} to {most}"
        said.append(
            f"a round: {chosen} clients in {clients.slots} slots, {samples:.0f} samples on average, {clients.epochs} "
            f"pass{'es' * (clients.epochs > 1)}; an epoch: {clients.rounds} rounds"
        )
        if clients.clock is not None:
            courses = [population.course(number) for number in preview]
            took = [each.ends - each.begins for each in courses]
            lost, late = (np.mean([getattr(each, name) for each in courses]) for name in ("lost", "late"))
            known = "" if clients.bytes_down else " without their bytes: describe(.., model=) counts them"
            said.append(
                f"a round takes {min(took):.3g} to {max(took):.3g} s, {np.mean(took):.3g} on average{known}; {lost:.1f} "
                f"clients are lost and {late:.1f} late"
            )
        return "\n".join(said)

    def __repr__(self) -> str:
        return f"Description({self._clients.count} clients, {self.sizes.sum()} samples)"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per client: its samples, and those of each class where there are classes."""
        import pandas  # noqa: PLC0415 - needed here only

        columns = {} if self.classes is None else {f"class {number}": column for number, column in enumerate(self.classes.T)}
        return pandas.DataFrame({"samples": self.sizes, **columns}, index=pandas.RangeIndex(len(self.sizes), name="client"))

    def plot(self, path: str | os.PathLike[str] | None = None) -> None:
        """Draw the samples of each client: a bar per client, the largest first, in which colours are classes.

        Args:
            path: the file, of the kind that its ending names; None shows the picture below the cell of a notebook.

        Raises: ImportError without matplotlib, the extra `plot`; ValueError without a path outside of notebooks.
        """
        try:
            from matplotlib import colormaps  # noqa: PLC0415 - an optional extra
            from matplotlib.figure import Figure  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("Description.plot() needs matplotlib: pip install matplotlib") from error
        # stable: clients of equal sizes stand in the order of their numbers
        order = np.argsort(-self.sizes, kind="stable")
        counts = self.sizes[:, None] if self.classes is None else self.classes
        colours = colormaps["tab10" if counts.shape[1] <= 10 else "viridis"]
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        panel = figure.subplots()
        bottom = np.zeros(len(order))
        for number, column in enumerate(counts.T):
            shade = colours(number if counts.shape[1] <= 10 else number / (counts.shape[1] - 1))
            panel.bar(np.arange(len(order)), column[order], 1.0, bottom, color=shade, label=f"class {number}")
            bottom += column[order]
        panel.set_xlabel("clients, the largest first")
        panel.set_ylabel("samples")
        panel.set_title(f"{self._clients.count} clients, {self._clients.dealer!r}")
        panel.margins(x=0)
        if 1 < counts.shape[1] <= 10:
            # "best" takes a second among many bars; the largest clients stand on the left
            panel.legend(ncols=2, fontsize="small", loc="upper right")
        put_out(figure, "Description.plot()", path, "clients.png")


def describe(
    clients: Clients, data: AbsDataset, transform: AbsTransformer | None = None, seed: int = 0, model: Model | None = None
) -> Description:
    """Return which client has which samples of a data set: `print` it, or `plot` it.

    Args:
        clients: the clients of a job.
        data: its data set.
        transform: its transform, or None.
        seed: that of the job.
        model: the model of the job, whose bytes decide about the seconds of clients with a clock.

    >>> data = nn.dataset.SyntheticClients(clients=3)
    >>> describe(Clients(3, sample=2), data).sizes.shape
    (3,)
    """
    arrays = data.load()
    _, labels, *_ = arrays if transform is None else transform(*arrays, seed=seed)
    clients = clients.of_data(data)
    rows = deal(clients, labels, seed)
    size = 0 if model is None else model.store.values.nbytes + model.store.buffer_values.nbytes
    # both ways all of it: the codecs, which may send less, are not known here
    known = clients.knowing([len(each) for each in rows], size, size)
    return Description(known, rows, class_counts(clients, labels, rows), seed)

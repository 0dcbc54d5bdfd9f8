"""Evaluation of clients on the samples that are held out of their training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from nn.arrays import Array
from nn.model import Model
from nn.model.batches import Batch, as_type

if TYPE_CHECKING:
    from .population import Rows
    from .remembering import Remembering

__all__ = ["ClientTests"]
_TOGETHER: Final = 1024  # samples


class ClientTests:
    """Evaluation of clients on samples that they have not trained with, each with the personal variables that it has.

    Args:
        model: that of the job.
        samples: of the whole set that has the rows, of each input of the model.
        labels: as the losses take them, of each output with a loss.
        rows: those that are held out, of each client that is evaluated here.
        memory: that of the clients, None where they remember nothing.
    """

    def __init__(
        self,
        model: Model,
        samples: Sequence[Array],
        labels: Sequence[Array],
        rows: Mapping[int, Rows],
        memory: Remembering | None,
    ) -> None:
        self._model, self._samples, self._labels, self._memory = model, samples, labels, memory
        self._rows = {client: own for client, own in rows.items() if len(own)}

    def results(
        self, seen: Callable[[Iterator[Batch]], Iterator[Batch]] = iter
    ) -> Iterator[tuple[int, int, Mapping[str, float]]]:
        """Yield number, samples, and loss and metrics of each client.

        Args:
            seen: passes the batches on, as they are evaluated.
        """
        for client, rows in self._rows.items():
            with nullcontext() if self._memory is None else self._memory.evaluated_as(client):
                # each client by itself: so its figures have the same bits on whichever worker
                yield client, len(rows), self._model._measure_batches(seen(self._batches(rows)))

    def _batches(self, rows: Rows) -> Iterator[Batch]:
        for start in range(0, len(rows), _TOGETHER):
            part = rows[start : start + _TOGETHER]
            x = tuple([as_type(each[part], self._model.dtype) for each in self._samples])
            yield Batch(x, tuple([each[part] for each in self._labels]), None, x, part)

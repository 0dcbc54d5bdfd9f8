"""What `parallel()` returns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

from nn.model import Model

from .accounts import NodeAccounts
from .ledger import Ledger


class JobResult(dict[str, float]):
    """The mean of every figure over the workers, rounded once, as a dict of floats that prints as one.

    Attributes: `models`, the trained model of each worker; `files`, the saved files of each node; `accounts`, for each node
    that ended well, the parameter server too, a list of `accounts.Entry` rows with `times` and `staleness`
    (`accounts.NodeAccounts`); `job_id`; `failures`, {node: (state, detail)} of nodes that were lost and could be done without;
    `restarts`, how often the job was started again after a failure; `ledger`, whose copy of each block of each batch went into
    the weights (`ledger.Ledger`), None where each worker trains a model of its own.
    """

    def __init__(
        self,
        figures: Mapping[int, Mapping[str, float]],
        models: Mapping[int, Model],
        files: Mapping[int, list[Path]],
        accounts: Mapping[int, NodeAccounts],
        job_id: str,
        failures: Mapping[int, tuple[str, str]] | None = None,
        restarts: int = 0,
        ledger: Ledger | None = None,
    ) -> None:
        names = next(iter(figures.values()), {})
        super().__init__({name: float(statistics.mean(f[name] for f in figures.values())) for name in names})
        self.models = dict(models)
        self.files = dict(files)
        self.accounts = dict(accounts)
        self.job_id = job_id
        self.failures = dict(failures or {})
        self.restarts = restarts
        self.ledger = ledger

"""What `parallel()` returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nn.model import Model


class JobResult(dict[str, float]):
    """The mean of every figure over the workers, as a dict of floats that prints as one.

    Attributes: `models`, the trained model of each worker; `files`, the saved files of each node; `accounts`, per node a list
    of `accounts.Entry`-like rows (codec, variable, peer, direction, packets, raw, wire, overhead bytes); `job_id`.
    """

    def __init__(
        self,
        figures: Mapping[int, Mapping[str, float]],
        models: Mapping[int, Model],
        files: Mapping[int, list[Path]],
        accounts: Mapping[int, list[Any]],
        job_id: str,
    ) -> None:
        names = next(iter(figures.values()), {})
        super().__init__({name: float(sum(f[name] for f in figures.values()) / len(figures)) for name in names})
        self.models = dict(models)
        self.files = dict(files)
        self.accounts = dict(accounts)
        self.job_id = job_id

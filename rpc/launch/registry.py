"""Launchers by name: `local:4`, `ssh:host1,host2`, `slurm:DIR`, `mpi:DIR`, `kubernetes:SERVICE`, `dask:tcp://...`.

Another launcher is another module with a function `offer(where, key_file, wait)`, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType

from network.names import did_you_mean

from .launcher import KeyFile, Offer


def _offered(module: str, function: str, where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """A launcher is imported when somebody asks for it: most programs use one."""
    offer: Callable[[str, KeyFile, float | None], Offer] = getattr(import_module(f".{module}", __package__), function)
    return offer(where, key_file, wait)


LAUNCHERS: Mapping[str, Callable[[str, KeyFile, float | None], Offer]] = MappingProxyType(
    {
        "local": partial(_offered, "local", "offer"),
        "ssh": partial(_offered, "ssh", "offer"),
        "slurm": partial(_offered, "batch", "on_slurm"),
        "mpi": partial(_offered, "batch", "on_mpi"),
        "kubernetes": partial(_offered, "kubernetes", "offer"),
        "dask": partial(_offered, "dask", "offer"),
    }
)
"""What each name of a launcher makes of what follows it."""


def launcher_of(text: str, key_file: KeyFile = None, wait: float | None = None) -> Offer:
    """The launcher that `text`, `name[:where]`, stands for.

    `key_file` is the key of agents that somebody else starts; `wait`, how many seconds they may take to come up.
    Raises: ValueError naming what is wrong and what is expected; NetworkError.
    """
    name, _, where = text.partition(":")
    if name not in LAUNCHERS:
        near = did_you_mean(name, LAUNCHERS).rstrip("?")
        raise ValueError(f"A launcher is written name[:where], with the name {', '.join(LAUNCHERS)}, got {text!r}{near}.")
    return LAUNCHERS[name](where, key_file, wait)

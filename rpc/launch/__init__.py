"""Launchers, which start agents or wait for those of a batch system: on this machine, by ssh, under Slurm, on Dask."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .batch import BatchLauncher
    from .dask import DaskLauncher
    from .kubernetes import KubernetesLauncher
    from .launcher import LAUNCHERS, Launcher, Offer, launcher_of
    from .local import LocalAgents, LocalLauncher, local_agents
    from .ssh import SSHLauncher

__all__ = [
    "LAUNCHERS",
    "BatchLauncher",
    "DaskLauncher",
    "KubernetesLauncher",
    "Launcher",
    "LocalAgents",
    "LocalLauncher",
    "Offer",
    "SSHLauncher",
    "launcher_of",
    "local_agents",
]

lazily(
    __name__,
    {
        "batch": "BatchLauncher",
        "dask": "DaskLauncher",
        "kubernetes": "KubernetesLauncher",
        "launcher": "LAUNCHERS Launcher Offer launcher_of",
        "local": "LocalAgents LocalLauncher local_agents",
        "ssh": "SSHLauncher",
    },
)

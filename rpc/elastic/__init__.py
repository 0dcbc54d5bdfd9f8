"""Members of a job with workers that come and go: hosts, their discovery, and the driver that decides on rounds."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .discovery import PERIOD_SECONDS as PERIOD_SECONDS
    from .discovery import Discovery, DiscoveryError, FileDiscovery, FunctionDiscovery, Poller
    from .discovery_sources import FolderDiscovery, ScriptDiscovery, discovery_of
    from .driver import ELASTIC_TIMEOUT as ELASTIC_TIMEOUT
    from .driver import ElasticDriver
    from .driver import Stage as Stage
    from .events import CheckpointSeen as CheckpointSeen
    from .events import DiscoveryFailed as DiscoveryFailed
    from .events import Fail as Fail
    from .events import Finish as Finish
    from .events import HostsSeen as HostsSeen
    from .events import Notified as Notified
    from .events import NotifyRankZero as NotifyRankZero
    from .events import Pause as Pause
    from .events import RemoveWorker as RemoveWorker
    from .events import StartRound as StartRound
    from .events import StopWorker as StopWorker
    from .events import Warn as Warn
    from .events import Worker
    from .events import WorkerEnded as WorkerEnded
    from .events import WorkerReady as WorkerReady
    from .events import WorkerStuck as WorkerStuck
    from .hosts import Blacklist, CoolDown, Host, HostUpdateResult, classify, deal, order_hosts, parse_hosts
    from .round import Recorded, Registry

__all__ = [
    "Blacklist",
    "CoolDown",
    "Discovery",
    "DiscoveryError",
    "ElasticDriver",
    "FileDiscovery",
    "FolderDiscovery",
    "FunctionDiscovery",
    "Host",
    "HostUpdateResult",
    "Poller",
    "Recorded",
    "Registry",
    "ScriptDiscovery",
    "Worker",
    "classify",
    "deal",
    "discovery_of",
    "order_hosts",
    "parse_hosts",
]

lazily(
    __name__,
    {
        "discovery": "Discovery DiscoveryError FileDiscovery FunctionDiscovery Poller",
        "discovery_sources": "FolderDiscovery ScriptDiscovery discovery_of",
        "driver": "ElasticDriver",
        "events": "Worker",
        "hosts": "Blacklist CoolDown Host HostUpdateResult classify deal order_hosts parse_hosts",
        "round": "Recorded Registry",
    },
    {
        "discovery": "PERIOD_SECONDS",
        "driver": "ELASTIC_TIMEOUT Stage",
        "events": (
            "CheckpointSeen DiscoveryFailed Fail Finish HostsSeen Notified NotifyRankZero Pause RemoveWorker StartRound "
            "StopWorker Warn WorkerEnded WorkerReady WorkerStuck"
        ),
    },
)

"""Who takes part in a job whose workers come and go: hosts, their discovery, and the driver that decides on rounds."""

from .discovery import Discovery, DiscoveryError, FileDiscovery, FunctionDiscovery, Poller
from .discovery_sources import FolderDiscovery, ScriptDiscovery, discovery_of
from .driver import ElasticDriver
from .events import Worker
from .hosts import Blacklist, CoolDown, Host, HostUpdateResult, classify, deal, order_hosts, parse_hosts
from .round import Recorded, Registry, may_go_on

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
    "may_go_on",
    "order_hosts",
    "parse_hosts",
]

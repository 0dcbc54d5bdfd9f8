"""Who takes part in a job whose workers come and go: hosts, their discovery, and the driver that decides on rounds."""

from .blacklist import Blacklist, CoolDown
from .discovery import Discovery, DiscoveryError, FileDiscovery, FunctionDiscovery
from .driver import ElasticDriver
from .folder import FolderDiscovery
from .hosts import Host, HostUpdateResult, classify, deal, order_hosts, parse_hosts
from .majority import may_go_on
from .poller import Poller
from .registry import Recorded, Registry
from .rounds import Worker
from .script import ScriptDiscovery, discovery_of

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

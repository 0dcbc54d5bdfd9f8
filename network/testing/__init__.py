"""Stand-ins for the world outside, shipped for tests, lectures and simulations: time that moves when it is told to, faults by
node and step, and connections that are slow, lossy or broken.
"""

from .clock import VirtualClock
from .fault import Fault, LinkFault, ProcessFault, Step
from .faults import FaultPlan
from .link_faults import LinkFaults
from .perform import InjectedFault, perform
from .proxy import Proxy
from .route import Route
from .shape import Shape

__all__ = [
    "Fault",
    "FaultPlan",
    "InjectedFault",
    "LinkFault",
    "LinkFaults",
    "ProcessFault",
    "Proxy",
    "Route",
    "Shape",
    "Step",
    "VirtualClock",
    "perform",
]

"""Faults on purpose, by node and step: a written plan, its effects on a process, and a proxy that spoils connections.

`parallel(fault=...)` takes such a plan; a job without one loads the plan and nothing else of this package.
"""

from typing import TYPE_CHECKING

from ..names import lazily

if TYPE_CHECKING:
    from .fault import Fault, LinkFault, ProcessFault, Step
    from .plan import FaultPlan, InjectedFault, perform
    from .proxy import Proxy, Route
    from .stream import Shape

__all__ = [
    "Fault",
    "FaultPlan",
    "InjectedFault",
    "LinkFault",
    "ProcessFault",
    "Proxy",
    "Route",
    "Shape",
    "Step",
    "perform",
]

# a worker with a plan loads `fault` and `plan`; proxy and streams only where a link has faults
lazily(
    __name__,
    {
        "fault": "Fault LinkFault ProcessFault Step",
        "plan": "FaultPlan InjectedFault perform",
        "proxy": "Proxy Route",
        "stream": "Shape",
    },
)

"""Leases of jobs: the promise of each node to one driver, and how a driver comes by the promises of a majority."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .candidacy import Candidacy as Candidacy
    from .candidacy import NoMajority as NoMajority
    from .election import OVER as OVER
    from .election import Candidate as Candidate
    from .election import Decision as Decision
    from .election import Newer as Newer
    from .election import later_term as later_term
    from .handoff import Handoff as Handoff
    from .handoff import new_driver as new_driver

lazily(
    __name__,
    {
        "candidacy": "Candidacy NoMajority",
        "election": "OVER Candidate Decision Newer later_term",
        "handoff": "Handoff new_driver",
    },
)

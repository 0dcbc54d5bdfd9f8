"""What a driver leaves to its heirs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field


def new_driver(who: str) -> str:
    """A name that no other driver has; `who` is for people."""
    return f"{who}/{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Will:
    """`estate` is the same for all attempts at a job, `charter` what has become of the job so far; `heir` is the module whose
    `main` takes over with both."""

    driver: str
    heir: str
    estate: bytes
    charter: str = ""
    term: int = 0
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", hashlib.sha256(self.estate).hexdigest())


def by_seniority(nodes: Iterable[int]) -> list[int]:
    """Who takes over before whom: workers by number, which survivors keep in order, then the parameter server."""
    return sorted(nodes, key=lambda node: (node < 0, node))

"""PowerSGD: gradients as products of narrow matrices."""

from __future__ import annotations

from .compose import Ring
from .interfaces import Codec
from .pipeline import low_rank
from .settings import GlobalSettings


def _up() -> low_rank.PowerSGD:
    return low_rank.PowerSGD(GlobalSettings.get_params("rank", 2))


PowerSGD = Codec.of(Ring(), up=_up, name="PowerSGD")
"""Factors of rank `rank` (2), averaged one after the other at the bytes of a ring; small variables go dense.

Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019."""

"""Codecs decide what is sent, to whom, and how received data is merged. The guide is README.md in this folder."""

from __future__ import annotations

from .dummy import DummyCodec
from .interfaces import BlockWeight, Codec, netEncapsulation
from .parameter_server import SyncPS
from .plain import Plain
from .settings import REQUIRED, GlobalSettings, MissingParameter

__all__ = [
    "REQUIRED",
    "BlockWeight",
    "Codec",
    "DummyCodec",
    "GlobalSettings",
    "MissingParameter",
    "Plain",
    "SyncPS",
    "netEncapsulation",
]

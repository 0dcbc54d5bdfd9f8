"""`codec.interface.Codec`, as the README of version 0.9 calls it; `interfaces` defines it."""

from .interfaces import BlockWeight, Codec, netEncapsulation

__all__ = ["BlockWeight", "Codec", "netEncapsulation"]

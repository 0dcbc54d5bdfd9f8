"""The place of `BlockWeight` in version 0.9, from which its codecs import it."""

from .interfaces import BlockWeight

__all__ = ["BlockWeight"]

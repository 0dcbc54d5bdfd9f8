"""Jobs on simulated nodes: the same codecs, exchange and results as on real ones, with time from a virtual clock."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .network import network_of
    from .platform import Platform
    from .platform_text import parse_platform, platform_from_toml, platform_of, platform_to_toml
    from .shrink import shrunk

__all__ = ["Platform", "network_of", "parse_platform", "platform_from_toml", "platform_of", "platform_to_toml", "shrunk"]

lazily(
    __name__,
    {
        "network": "network_of",
        "platform": "Platform",
        "platform_text": "parse_platform platform_from_toml platform_of platform_to_toml",
        "shrink": "shrunk",
    },
)

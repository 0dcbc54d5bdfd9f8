"""Hosts from the folder in which agents of a batch system register; see `rpc.registration`."""

from __future__ import annotations

import os
from pathlib import Path

from network.errors import NetworkError
from network.key_files import find_keys

from ..registration import Registration, registrations
from .discovery import DiscoveryError
from .hosts import Host, parse_hosts
from .living import Living


class FolderDiscovery:
    """The agents that are registered in `folder` and answer; those that come and go are seen at the next look.

    `key_file` is the key that they must hold; None for the usual places.
    """

    def __init__(self, folder: str | os.PathLike[str], key_file: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.key_file = key_file
        self._living: Living | None = None

    def use_key(self, key_file: str | Path | None) -> None:
        """Take this key, unless another one was named."""
        if self.key_file is None:
            self.key_file = key_file

    def living(self) -> list[Registration]:
        """Those that are registered and answer, by rank.

        Raises: DiscoveryError when the folder or the key cannot be read.
        """
        try:
            if self._living is None:
                key_file = Path(self.key_file) if self.key_file else None
                self._living = Living(find_keys(key_file, os.environ, create=False).offered)
            return self._living.among(registrations(self.folder))
        except (OSError, NetworkError) as error:
            raise DiscoveryError(f"The folder {self.folder} cannot be used: {error}") from error

    @property
    def silent(self) -> dict[str, str]:
        """Who was registered at the last look and does not answer, and why."""
        return {} if self._living is None else self._living.silent

    def find(self) -> list[Host]:
        """The hosts of those that live.

        Raises: DiscoveryError.
        """
        return parse_hosts("\n".join(one.line for one in self.living()))

    def close(self) -> None:
        """Nothing is held."""

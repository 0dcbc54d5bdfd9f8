"""Codecs of one's own in the form that version 0.9 has taught: a client, and servers that do and do not know the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallel_sgd import Parameter_Server
from parallel_sgd.codec import Codec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.essential import BlockWeight


class Client(Codec):
    """Sends every block to the server, and takes what comes."""

    def __init__(self, node_id: int) -> None:
        Codec.__init__(self, node_id)

    def dispose(self) -> None:
        pass

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return netEncapsulation(Parameter_Server, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> Any:
        self.set_result(content[1])


class Differences(Codec):
    """Sums up, and gives each worker what has been added since it asked last."""

    def __init__(self, node_id: int) -> None:
        Codec.__init__(self, node_id)
        self.total: Any = 0
        self.told: dict[int, Any] = {}

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        pass

    def receive_blocks(self, content: Any) -> Any:
        self.total = self.total + content[1]
        news = self.total - self.told.get(content[0], 0)
        self.told[content[0]] = self.total
        return netEncapsulation(content[0], (-1, news))


class FromZero(Codec):
    """Takes what it gets for increments of parameters that begin with zero, and gives those."""

    def __init__(self, node_id: int) -> None:
        Codec.__init__(self, node_id)
        self.parameters: Any = 0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        pass

    def receive_blocks(self, content: Any) -> Any:
        self.parameters = self.parameters - content[1]
        return netEncapsulation(content[0], (-1, self.parameters))


class Introduced(Client):
    """The remedy: the parameters go with the first gradient."""

    known = False

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        start = None if self.known else GlobalSettings.get_value().copy()
        self.known = True
        return netEncapsulation(Parameter_Server, (self.node_id, block_weight.content, start))


class FromTheStart(FromZero):
    """Begins with what the first worker has."""

    def receive_blocks(self, content: Any) -> Any:
        if content[2] is not None and isinstance(self.parameters, int):
            self.parameters = content[2]
        return super().receive_blocks((content[0], np.float32(0.1) * content[1]))

"""What job processes of a simulation send to each other while they train: frames as they travel, over its wires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.frames import FrameReader
from network.message import Message
from network.wire import Kind, Sent, pack
from parallel_sgd.engine.channel import Key

if TYPE_CHECKING:
    from .processes import SimProcess

MARKED_STEP = (0, 1)  # epoch and batch whose exchange counts as the phases step-send and step-reduce


class SimChannel:
    """The `Channel` of a job process over the wires of the simulation."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self.node_id = process.node

    def peers(self) -> list[int]:
        process = self._process
        return [node for node in process.life.nodes if process.life.open[process.name, f"J{node}"]]

    def transport(self, _peer: int) -> str:
        return "tcp"

    def suspects(self) -> list[int]:
        return []

    def post(self, target: int, key: Key, content: object) -> Sent:
        process = self._process
        if key[1:3] == MARKED_STEP:
            process.life.note("step-send", process.name)
        packed = pack(Kind.MESSAGE, key, content)
        process.life.send(process.name, f"J{target}", b"".join(packed.buffers()))
        return Sent(packed.raw, packed.overhead)

    def flush(self) -> None:
        """What is posted is under way."""

    def poll(self) -> None:
        """What has arrived is delivered by the simulation."""

    def flushed(self) -> bool:
        return True


def read_frames(frames: bytes) -> Message:
    """The message that they are."""
    reader = FrameReader()
    reader.feed(frames)
    return reader.messages.popleft()

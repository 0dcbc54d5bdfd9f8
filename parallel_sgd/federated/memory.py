"""Memory of clients: common state of all workers, which tell each other after each round what their clients remember."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nn import tensor_files
from nn.arrays import Array
from nn.tensor_files import ModelFileError

from ..codec.interfaces import BlockWeight, CheckingPackets, Codec, TakingLate, Tracking, netEncapsulation
from ..codec.settings import GlobalSettings
from ..codec.traits import PacketTraits
from ..engine.unusable import Like, Unusable, check_finite
from ..record.history import HOSTING

State = dict[str, Any]
COMMON: Final = -1
"""Stands for the number of a client in the memory of what all clients have in common."""
_NUMBERS: Final = "numbers"

#: `(block, memory)`, or `(block, memory, asker)` of a worker that misses something and asks for an answer.
MemoryContent = tuple[int, Array] | tuple[int, Array, int]


class ClientMemory(CheckingPackets, TakingLate, Tracking):
    """Codec for the memory of the clients of a round: each worker sends that of its slots to all that have not trained them.

    So every worker has the memory of all clients, and a checkpoint of any of them is whole. The first copy of a slot counts.
    `coming` is the memory of the slot that is put next, and its content an empty array; so is the result, which says that
    `found` is complete.
    """

    traits = replace(
        Codec.traits,
        keeps_content=False,
        synchronous=True,
        takes_first_copy=True,
        packets=PacketTraits(((int, np.ndarray), (int, np.ndarray, int))),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._settings = GlobalSettings.current()
        self._assignment = self._settings.assignment
        self._settings.check_node(self)
        self.coming: State = {}
        #: Memory after the round, by slot.
        self.found: dict[int, State] = {}
        self._sent: dict[int, Array] = {}
        self._complete = False
        self._repeated = 0

    @property
    def duplicates(self) -> int:
        return self._repeated

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        block, content = block_weight.block_id, self.coming
        # the first slot of the next round; until then `found` may be read
        if self._complete:
            self._complete = False
            self.found, self._sent = {}, {}
        targets = tuple(self._assignment.get_adversary(block))
        self._take(block, content)
        if not targets:
            return None
        packed = self._sent[block] = pack(content)
        return netEncapsulation(targets, (block, packed))

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse packets that are no memory of a slot of their sender."""
        if not isinstance(content, tuple) or tuple(map(type, content)) not in self.traits.packets.forms:
            raise Unusable(f"it must be (block, memory), got {type(content).__name__}")
        block, packed, *asking = content
        sender = self._settings.sender
        for node in asking:
            self._settings.check_sender(node)
        if not 0 <= block < self._assignment.block_count or (
            sender is not None and sender not in self._assignment.block_2_node[block]
        ):
            raise Unusable(f"it holds the memory of the slot {block}, which node({sender}) does not train")
        if packed.dtype != np.uint8 or packed.ndim != 1:
            raise Unusable(f"the memory of a client must be a row of bytes, got {packed.dtype} {packed.shape}")

    def receive_blocks(self, content: MemoryContent) -> Iterable[netEncapsulation] | None:
        block, packed, *asking = content
        if block in self.found:
            self._repeated += 1
        else:
            self._take(block, read_packed(packed))
        return self._answer(asking)

    def receive_late(self, content: MemoryContent) -> Iterable[netEncapsulation] | None:
        """Answer a worker that still asks."""
        return self._answer(content[2:])

    def _answer(self, asking: Iterable[int]) -> list[netEncapsulation] | None:
        targets = list(asking)
        return [netEncapsulation(targets, (block, packed)) for block, packed in self._sent.items()] if targets else None

    def _take(self, block: int, state: State) -> None:
        self.found[block] = state
        if len(self.found) == self._assignment.block_count:
            self._complete = True
            self.set_result(np.empty(0, np.float32))

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        """Send the memory of the own slots again to the workers of those that are missing, and ask them for theirs."""
        late = {node for block in self.missing_blocks() for node in self._assignment.block_2_node[block]} - {self.node_id}
        if not (late and self._sent):
            return None
        return (netEncapsulation(late, (block, packed, self.node_id)) for block, packed in self._sent.items())

    def missing_blocks(self) -> Iterable[int]:
        return [block for block in self._assignment.blocks if block not in self.found]

    def dispose(self) -> None:
        super().dispose()
        self.found, self._sent = {}, {}


if ClientMemory.__name__ != HOSTING:
    raise ImportError(f"The history must leave out the bytes of {ClientMemory.__name__}, got {HOSTING}")


def pack(state: State) -> Array:
    """Return arrays and numbers by name as a row of bytes."""
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in state.items() if name not in arrays}
    # the file holds arrays alone, so numbers go into its metadata
    return np.frombuffer(tensor_files.dump(arrays, {_NUMBERS: json.dumps(numbers)}), np.uint8)


def read_packed(packed: Array) -> State:
    """Return what `pack` has packed.

    Raises: Unusable for other bytes, and for numbers that are not finite.
    """
    try:
        arrays, metadata = tensor_files.parse(np.ascontiguousarray(packed).data)
        numbers = json.loads(metadata[_NUMBERS])
        # True is an int to isinstance
        if not isinstance(numbers, dict) or any(type(value) not in (int, float) for value in numbers.values()):
            raise ValueError("it must have numbers by name")
    except (ModelFileError, KeyError, ValueError) as error:
        raise Unusable(f"it is no memory of a client: {error}") from error
    check_finite(arrays)
    return {**arrays, **numbers}


class Memories:
    """Memories of all clients, and of what they have in common, as they are after the rounds so far.

    A round works on copies: `after` replaces memories when the round has been applied, so that a round which breaks off has
    changed none.
    """

    def __init__(self) -> None:
        self._states: dict[int, State] = {}

    def of(self, client: int) -> State:
        """Return the memory of a client, empty for one that remembers nothing yet; nothing of it may be changed.

        Args:
            client: its number, or COMMON.
        """
        return self._states.get(client, {})

    def all(self) -> list[State]:
        """Return the memories of all clients that have one, in order."""
        return [state for client, state in sorted(self._states.items()) if client != COMMON]

    def after(self, states: Mapping[int, State]) -> None:
        """Replace memories.

        Args:
            states: those after a round, by client.
        """
        self._states.update({client: state for client, state in states.items() if state})

    def state_dict(self) -> State:
        """Return all memories for a checkpoint: `<name>@<client>`."""
        return {f"{name}@{client}": value for client, state in self._states.items() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_dict` returned."""
        self._states = {}
        for key, value in state.items():
            name, _, client = key.rpartition("@")
            # copied: the state is read-only memory of a checkpoint's file
            own = np.array(value) if isinstance(value, np.ndarray) else value
            self._states.setdefault(int(client), {})[name] = own

"""The codecs of one worker, one per variable, and the way of their packets into the channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallel_sgd.accounts import Accounts
from parallel_sgd.channel import Channel
from parallel_sgd.profiles import ISetting

from .interfaces import Array, BlockWeight, Codec, Packets, netEncapsulation
from .settings import GlobalSettings, JobSettings

CodecChoice = type[Codec] | Mapping[int, type[Codec]] | None


def choose_codecs(choice: CodecChoice, default: type[Codec], variables: int) -> list[type[Codec]]:
    """The codec class of each variable: one for all, or a dict by variable id, the rest `default`.

    Raises: TypeError for what is no codec class, ValueError for a variable that the model does not have.
    """
    chosen: Mapping[int, type[Codec]] = choice if isinstance(choice, Mapping) else {}
    if choice is not None and not isinstance(choice, Mapping):
        chosen = dict.fromkeys(range(variables), choice)
    for variable, kind in chosen.items():
        if not (isinstance(kind, type) and issubclass(kind, Codec)):
            raise TypeError(f"'codec' must be a subclass of Codec or a dict of them by variable id, got {kind!r}")
        if variable not in range(variables):
            raise ValueError(f"'codec' names variable {variable!r}, but the model has the variables 0..{variables - 1}")
    return [chosen.get(variable, default) for variable in range(variables)]


class CodecBank:
    """Calls the codecs and posts what they return, tagged with the current batch.

    Packets are corked: they leave when `flush` is called or more than `cork` bytes wait.
    """

    def __init__(
        self, kinds: Sequence[type[Codec]], settings: JobSettings, channel: Channel, attempt: int, cork: int = 1 << 16
    ) -> None:
        GlobalSettings.install(settings)
        self._settings = settings
        self._channel = channel
        self.node_id = channel.node_id
        self.assignment: ISetting = settings.assignment
        self._names = [kind.__name__ for kind in kinds]
        self.accounts = Accounts(channel.node_id, self._names)
        self._attempt = attempt
        self._step = (-1, -1)
        self._cork = cork
        self._corked = 0
        self.codecs: list[Codec] = []
        for kind in kinds:
            settings.codec = kind.__name__
            self.codecs.append(kind(channel.node_id))

    def begin(self, step: tuple[int, int]) -> None:
        """From here on packets carry this (epoch, batch)."""
        self._step = step

    def update(self, variable: int, block_id: int, content: Array) -> None:
        """Give a computed block to its codec."""
        self._settings.codec = self._names[variable]
        self._post(variable, self.codecs[variable].update_blocks(BlockWeight(content, block_id)))

    def receive(self, variable: int, content: object) -> None:
        """Give a received packet to its codec."""
        self._settings.codec = self._names[variable]
        self._post(variable, self.codecs[variable].receive_blocks(content))

    def receive_late(self, variable: int, content: object, step: tuple[int, int]) -> None:
        """Give a packet of the batch finished last to its codec; an answer carries the same (epoch, batch)."""
        now, self._step = self._step, step
        try:
            self._settings.codec = self._names[variable]
            self._post(variable, self.codecs[variable].receive_late(content))
        finally:
            self._step = now

    def rescue(self, variable: int) -> bool:
        """Let the codec try to save an overdue result; True when it sent something."""
        self._settings.codec = self._names[variable]
        return self._post(variable, self.codecs[variable].do_something_to_save_yourself()) > 0

    def flush(self) -> None:
        """Let corked packets leave."""
        if self._corked:
            self._corked = 0
            self._channel.flush()

    def flushed(self) -> bool:
        """True when the arrays of all posted packets may change."""
        return self._channel.flushed()

    def dispose(self) -> None:
        """The job ends."""
        for codec in self.codecs:
            codec.dispose()

    def _post(self, variable: int, packets: Packets) -> int:
        if packets is None:
            return 0
        if isinstance(packets, netEncapsulation):
            packets = (packets,)
        key = (self._attempt, *self._step, variable)
        count = 0
        for packet in packets:
            if not isinstance(packet, netEncapsulation):
                raise TypeError(
                    f"{self._names[variable]} must return None, a netEncapsulation or an iterable of them, "
                    f"got {type(packet).__name__}"
                )
            for target in packet.targets:
                if target == self.node_id:
                    raise ValueError(
                        f"{self._names[variable]} sends variable {variable} to its own node {target}: "
                        f"use set_result for what stays here"
                    )
                size = self._channel.post(target, key, packet.content)
                self.accounts.sent(variable, target, size)
                self._corked += size.wire
                count += 1
        if self._corked > self._cork:
            self.flush()
        return count

"""The codecs of one node, one per variable, and the way of their packets into the channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import isabstract

from parallel_sgd.accounts import Accounts
from parallel_sgd.channel import Channel, Key, Sent
from parallel_sgd.profiles import ISetting

from .interfaces import Array, BlockWeight, Codec, Packets, netEncapsulation
from .settings import GlobalSettings, JobSettings

CodecChoice = type[Codec] | Mapping[int, type[Codec]] | None


def choose_codecs(choice: CodecChoice, default: type[Codec], variables: int, name: str = "codec") -> list[type[Codec]]:
    """The codec class of each variable: one for all, or a dict by variable id, the rest `default`.

    Raises: TypeError for what is no codec class, ValueError for a variable that the model does not have; they call it `name`.
    """
    chosen: Mapping[int, type[Codec]] = choice if isinstance(choice, Mapping) else {}
    if choice is not None and not isinstance(choice, Mapping):
        chosen = dict.fromkeys(range(variables), choice)
    for variable, kind in chosen.items():
        if not (isinstance(kind, type) and issubclass(kind, Codec)) or isabstract(kind):
            raise TypeError(f"'{name}' must be a subclass of Codec or a dict of them by variable id, got {_shown(kind)}")
        if variable not in range(variables):
            raise ValueError(f"'{name}' names variable {variable!r}, but the model has the variables 0..{variables - 1}")
    return [chosen.get(variable, default) for variable in range(variables)]


def _shown(kind: object) -> str:
    missing = sorted(getattr(kind, "__abstractmethods__", ())) if isinstance(kind, type) else ()
    return f"{kind!r}, which lacks {', '.join(missing)}" if missing else repr(kind)


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
        self.refused = 0  # packets of another attempt
        self.unsent = 0  # bytes posted since the wire was last seen to have taken everything
        self._step = (-1, -1)
        self._cork = cork
        self._corked = 0
        self.codecs: list[Codec] = []
        for kind in kinds:
            settings.codec = kind.__name__
            self.codecs.append(kind(channel.node_id))

    def begin(self, step: tuple[int, int]) -> None:
        """From here on packets carry this (epoch, batch), counted from 0."""
        self._step = step

    def takes(self, sender: int, key: Key, size: Sent) -> bool:
        """Enter an arrived packet into the accounts; False, and counted in `refused`, when it is of another attempt.

        Raises: ValueError when the key is not (attempt, epoch, batch, variable) of this job.
        """
        if len(key) != 4 or not 0 <= key[3] < len(self.codecs):
            raise ValueError(f"A packet's key must be (attempt, epoch, batch, variable) of this job, got {key}")
        self.accounts.received(key[3], sender, size)
        if key[0] == self._attempt:
            return True
        self.refused += 1
        return False

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
        if not self._channel.flushed():
            return False
        self.unsent = 0
        return True

    @property
    def takes_first_copy(self) -> bool:
        """Whether every codec can do without a node whose blocks others hold too."""
        return all(codec.takes_first_copy for codec in self.codecs)

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
                if size is not None:
                    self.accounts.sent(variable, target, size)
                    self._corked += size.wire
                    self.unsent += size.wire
                    count += 1
        if self._corked > self._cork:
            self.flush()
        return count

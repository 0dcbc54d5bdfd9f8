"""The codecs of one node, one per variable, and the way of their packets into the channel."""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from network.errors import BadContent, ProtocolError
from network.message import Content, Message, Undecoded, own
from parallel_sgd.engine.accounts import MOST_STEPS, PERFORMANCE, RECEIVED, SENT, SENT_AT, Accounts, Joined
from parallel_sgd.engine.channel import Channel, NoSuchNode, Parameter_Server
from parallel_sgd.engine.unusable import Like, Unusable, is_finite, not_finite
from parallel_sgd.profiles.blockassignment.abstract import ISetting
from rpc.code_closure import OWN_PACKAGES
from rpc.support.logs import get_logger
from rpc.user_code import note, own_frames

from .interfaces import (
    INTEGERS,
    Answering,
    Array,
    BlockWeight,
    CheckingPackets,
    Codec,
    CountingPackets,
    Misused,
    Packets,
    Remembering,
    TakingLate,
    age_counts,
    check_packet,
    netEncapsulation,
)
from .settings import GlobalSettings, JobSettings

_log = get_logger("parallel_sgd.codec")


def made(kind: type[Codec], node_id: int) -> Codec:
    """Return a codec of a node.

    Raises: TypeError for a class with a constructor that leaves out that of `Codec`, or does not take the node alone.
    """
    try:
        codec = kind(node_id)
    except TypeError:
        try:
            inspect.signature(kind.__init__).bind(None, node_id)
        except TypeError:
            raise TypeError(
                f"{kind.__name__}.__init__() must take (self, node_id), and call super().__init__(node_id)"
            ) from None
        raise
    # found here, not at the first packet: the message names the line that is missing
    if not hasattr(codec, "_result"):
        raise TypeError(f"{kind.__name__}.__init__() must call super().__init__(node_id)")
    return codec


class _Rules(NamedTuple):
    """Rules of a codec about the packets that come to it, at hand for each of them."""

    in_place: bool
    check: Callable[[Any, Like | None], None]
    always: bool  # asked of every packet, else of unusual ones
    forms: tuple[Any, ...]
    passes_on: bool

    @classmethod
    def of(cls, codec: Codec) -> _Rules:
        traits = codec.traits
        checks = isinstance(codec, CheckingPackets)
        check = codec.check if isinstance(codec, CheckingPackets) else partial(check_packet, codec)
        # `alike`: the check would find nothing in usual packets, and their sender is looked at in `receive_blocks`
        always = checks and not traits.packets.alike
        return cls(traits.reads_in_place, check, always, traits.packets.forms, traits.passes_on)


class CodecBank:
    """Bank of codecs: calls them and posts the packets that they return, tagged with the current batch.

    Packets are corked: they leave with the last block of a batch, when `flush` is called or more than `cork` bytes wait for one
    peer, so that all packets of a batch for it leave as one train, however many peers there are.
    Where variables are `joined`, each vector of them has a codec; here and in the keys of packets a variable is then the place
    of its vector. Codecs know that by its first variable, people and the accounts by all.
    A packet of the batch that runs goes straight to the codec of a variable that is `open`; any other to `keep`, which is
    `ISyncType.receive`.

    Args:
        kinds: the codec class of each variable, or of each joined vector.
        settings: the settings of the job, installed in the running context.
        channel: the way of packets to other nodes.
        attempt: the number of the job's attempt, first in the key of every packet; packets of another one are refused.
        cork: bytes that may wait for one peer.
        joined: the variables of each vector; empty: every variable is a vector by itself.
    """

    def __init__(
        self,
        kinds: Sequence[type[Codec]],
        settings: JobSettings,
        channel: Channel,
        attempt: int,
        cork: int = 1 << 16,
        joined: Sequence[Joined] = (),
    ) -> None:
        # before any codec is made: constructors read them
        GlobalSettings.install(settings)
        self._settings = settings
        self.channel = channel
        self.node_id = channel.node_id
        self.assignment: ISetting = settings.assignment
        self._names = [kind.__name__ for kind in kinds]
        self.accounts = Accounts(
            channel.node_id,
            [*self._names, "sync type", "still computing", "checkpoint"],
            channel.transport,
            joined,
            getattr(channel, "clock", PERFORMANCE),
            getattr(channel, "by_link", True),
        )
        # messages and accounts are by variable, whatever travels as one vector
        self._joined = [self.accounts.joined(place) for place in range(len(kinds))]
        self._ids = [each.variables.start for each in self._joined]
        self._watch = self.accounts.watch
        self._attempt = attempt
        self.refused = 0  # packets of another attempt
        # a server stops reading above a limit of these, so that slow readers do not fill its memory
        self.unsent = 0  # bytes posted since the wire was last seen to have taken everything
        self._step = (-1, -1)
        self._cork = cork
        self.corked = 0  # bytes that wait for `flush`, for one peer at most
        self.settled = False  # whether `flushed` has been true since the batch began and something was posted last
        self.hears_peers = False  # whether the sync types of the workers talk to each other: `tell_peers`
        self._word = len(kinds) + 1  # the place behind that of `tell_peers`: words of workers that still compute
        self._heard_word = -math.inf
        self.clock: Callable[[], float] = self._watch.clock  # that of the time-outs, in which `silence` is told
        # a server with a quorum is to close a batch without the workers that compute for too long
        exchanges = [getattr(getattr(kind, "composition", None), "exchange", None) for kind in kinds]
        self._tells = all(getattr(exchange, "quorum", 1) == 1 for exchange in exchanges)
        #: Bytes that the codecs whose places stand here have sent of the last block.
        self.uploads: dict[int, int] = {}
        self.closed = False
        self.variable_names: Sequence[str] = ()  # of each variable, for messages
        self._blocks = 0  # that have been put in this batch, of all variables
        # a server (-2) puts no blocks, so nothing leaves by their count there
        self._all_blocks = len(kinds) * len(self.assignment.node_2_block[self.node_id]) if self.node_id >= 0 else 0
        self.codecs: list[Codec] = []
        for variable, kind in enumerate(kinds):
            self._enter(variable)
            self.codecs.append(made(kind, channel.node_id))
        self._rules = [_Rules.of(codec) for codec in self.codecs]
        self._counting = [codec for codec in self.codecs if isinstance(codec, CountingPackets) and codec.counts_packets]
        self.counts_packets = len(self._counting) == len(self.codecs)  # whether `fewest_packets` knows more than 1
        self.keeps_content = [codec.traits.keeps_content for codec in self.codecs]
        # where a codec has `is_done` and `get_result` of the base, sync types read its result without a call
        self.plain_results = [kind.is_done is Codec.is_done and kind.get_result is Codec.get_result for kind in kinds]
        self._likes: list[Like | None] = [None] * len(kinds)
        self.merged = [False] * len(kinds)  # whether something was received since the result was looked at
        self.open = [False] * len(kinds)
        self.heard: list[tuple[int, int]] = []  # (sender, variable) of this batch, for messages
        self.keep: Callable[[int, tuple[int, int], int, Content], None] = self._drop

    def expect(self, likes: Sequence[Like]) -> None:
        """Note shape and type of the arrays that are put for the first variables.

        They serve packets that come before the first own block, or to a node where nothing is put.
        """
        # a job may have fewer codecs than likes: a server without buffers, for one
        self._likes[: len(likes)] = likes[: len(self._likes)]

    def begin(self, step: tuple[int, int]) -> None:
        """Have packets carry this (epoch, batch), counted from 0, from here on."""
        self._step = self._settings.step = self.accounts.step = step
        self.settled = False
        self._blocks = 0

    def takes(self, packets: Sequence[tuple[int, Message]]) -> bool:
        """Enter packets of one key, (sender, message) each, into the accounts; return False, and count them in `refused`, when
        they are of another attempt.

        Raises: ValueError when the key is not (attempt, epoch, batch, variable) of this job.
        """
        key = packets[0][1].head
        # a key comes from the wire: it is an index below, and a hostile one must not reach another list's end
        if len(key) != 4 or not (0 <= key[3] < len(self.codecs) + self.hears_peers or key[3] == self._word):
            raise ValueError(f"A packet's key must be (attempt, epoch, batch, variable) of this job, got {key}")
        rows, counts, (place, variables) = self.accounts.rows, self.accounts.counts, self.accounts.places[key[3]]
        # by the packet's own batch; beyond the limit by that which runs, since a peer could invent batches without end
        count = counts[(key[1], key[2]) if len(counts) < MOST_STEPS else self._step]
        # written out, not by `accounts.received`: this runs for every packet
        for sender, (_, _, raw, overhead, shared) in packets:
            row = rows[RECEIVED, key[3], sender]
            row[0] += 1
            row[1] += raw
            row[2] += overhead
            # raw bytes in memory are part of the raw bytes, and are told apart from those on the wire
            if shared:
                row[3] += 1
                row[4] += raw
            count[place] += variables
            count[place + 1] += raw
            count[place + 2] += overhead
        # FD-14: a packet of an attempt that was given up is counted, so that accounts add up, and not used
        if key[0] == self._attempt:
            return True
        self.refused += len(packets)
        return False

    def accept(self, sender: int, message: Message) -> None:
        """Take a packet. Raises: as `accept_all`."""
        self._accept(((sender, message),))

    def accept_all(self, packets: Iterable[tuple[int, Message]]) -> None:
        """Take packets, (sender, message) each, in the order in which they have arrived. Neighbours of one key, as most packets
        of a batch are, share a good part of the work.

        Called in the worker's own context, never concurrently.

        Raises: as `takes` and `receive`.
        """
        for _, alike in groupby(packets, _key_of):
            self._accept(list(alike))

    def _accept(self, packets: Sequence[tuple[int, Message]]) -> None:
        """Take packets of one key."""
        if not self.takes(packets):
            return
        _, epoch, batch, variable = packets[0][1].head
        if (epoch, batch) == self._step and variable < len(self.open) and self.open[variable]:
            contents = []
            for sender, message in packets:
                self.heard.append((sender, variable))
                contents.append((sender, message.content))
            self.receive_all(variable, contents)
        elif variable == self._word:
            # nothing is missing from a worker that computes a later batch already
            if (epoch, batch) <= self._step:
                self._heard_word = self.clock()
        else:
            # still undecoded: an early packet is kept as it came, a late one may never be looked at
            for sender, message in packets:
                self.keep(sender, (epoch, batch), variable, message.content)

    def fewest_packets(self) -> int:
        """Return how many packets of variables must come, at least, before a codec sends anything or has its result."""
        return min(codec.fewest_packets() for codec in self._counting)

    def _drop(self, sender: int, step: tuple[int, int], variable: int, content: Content) -> None:
        raise RuntimeError(f"Nobody has said what is to be done with the packets of node({sender}) for variable {variable}.")

    def update(self, variable: int, block_id: int, content: Array, kind: type[BlockWeight] = BlockWeight) -> None:
        """Give a computed block to its codec, or the sum over two."""
        watch, settings = self._watch, self._settings
        start, sent = watch.clock(), watch.send
        settings.codec, settings.variable = self._names[variable], self._ids[variable]
        if self._likes[variable] is None:
            # without `expect` the first own block tells the form
            self._likes[variable] = Like.of(content)
        try:
            packets = self.codecs[variable].update_blocks(kind(content, block_id))
        except Misused as error:
            raise TypeError(f"{error}{self._of_packet(variable, None)}") from None
        if packets is not None:
            self._post(variable, packets)
        self._blocks += 1 if kind is BlockWeight else 2
        # all packets of the batch leave together, as long trains
        if self._blocks == self._all_blocks:
            self.flush()
        spent = watch.clock() - start - (watch.send - sent)
        watch.encode += spent
        self.accounts.encoding[variable] += spent

    def receive(self, variable: int, content: Any, sender: int | None = None) -> None:
        """Give a packet of `sender` to its codec. Raises: as `receive_all`."""
        self.receive_all(variable, ((sender, content),))

    def receive_all(self, variable: int, packets: Iterable[tuple[int | None, Any]], *, late: bool = False) -> None:
        """Give received packets to their codec, one after the other, and post the answers.

        Args:
            variable: place of the codec.
            packets: (sender, content) each.
            late: for `receive_late` alone.

        Raises: BadContent naming sender, codec, variable and batch when a check, a declared form or a codec of this project
            refuses it; the error that a user's codec raises itself, with a note that names method, line and packet.
        """
        watch, settings, codec = self._watch, self._settings, self.codecs[variable]
        in_place, check, always, forms, passes_on = self._rules[variable]
        like, take = self._likes[variable], partial(self._receive_late, codec) if late else codec.receive_blocks
        start, sent = watch.clock(), watch.send
        settings.codec, settings.variable = self._names[variable], self._ids[variable]
        for sender, content in packets:
            settings.sender = sender
            try:  # the one gate before anything is merged; errors of a codec about contents without a check count, too
                # a codec that may write into what it gets has copies of arrays that lie in memory of their sender
                if not in_place:
                    content = own(content)
                if type(content) is Undecoded:
                    content = content.unpack()
                # nearly all packets are usual, and are checked without a call into the codec
                if always or like is None or not _is_usual(content, like, forms):
                    check(content, like)
                answers = take(content)
                # a generator runs inside the try, so that its errors are told as the codec's
                if answers is not None and isinstance(answers, Iterator):
                    answers = list(answers)
            except (ProtocolError, Unusable) as error:
                raise self._bad_content(variable, sender, str(error), content) from error
            except Misused as error:
                raise TypeError(f"{error}{self._of_packet(variable, sender)}") from None
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                frames = own_frames(error.__traceback__)
                if frames and not (isinstance(error, ValueError) and frames[0][0].f_code.co_name == "check"):
                    note(error, self._of_packet(variable, sender))  # the author's code failed: no check has refused the packet
                    raise
                raise self._bad_content(variable, sender, f"{type(error).__name__}: {error}", content) from error
            except Exception as error:
                note(error, self._of_packet(variable, sender))
                if isinstance(error, ArithmeticError):
                    _log.error("What follows went wrong with what node(%s) had sent for %s.", sender, self._where(variable))
                raise
            if answers is not None:
                try:
                    self._post(variable, answers, "receive_late" if late else "receive_blocks", sender)
                except ValueError as error:  # an answer to whom there is not
                    if not _is_ours(type(codec).receive_blocks):
                        raise
                    raise self._bad_content(variable, sender, f"ValueError: {error}", content) from error
        # the result is looked at once (`BlockExchange.read`) after others had a part in it
        self.merged[variable] = not passes_on
        spent = watch.clock() - start - (watch.send - sent)
        watch.merge += spent
        self.accounts.merging[variable] += spent

    def _of_packet(self, variable: int, sender: int | None) -> str:
        """Return the packet that an error belongs to, in words that follow those of the error."""
        epoch, batch = self._step
        of = f"{self.describe(variable)}, epoch {epoch + 1}, batch {batch + 1}"
        return f" for {of}" if sender is None else f" for a packet of node {sender}, {of}"

    def _bad_content(self, variable: int, sender: int | None, reason: str, content: object) -> BadContent:
        # by place of the first wrong number the message names the one variable of a vector
        array = content[-1] if type(content) is tuple and content else content
        return BadContent(-1 if sender is None else sender, self._where(variable, array), reason.rstrip("."))

    def check_result(self, variable: int, result: Array) -> None:
        """See that a result in which other nodes had a part holds finite numbers: sums of large ones may not.

        Raises: FloatingPointError naming codec, variable and batch.
        """
        if self.codecs[variable].traits.packets.finite and not is_finite(result):
            raise FloatingPointError(
                f"The result cannot be used: {not_finite(result)}, though what came in was; somebody's are too large. It "
                f"is for {self._where(variable, result)}."
            )

    def describe(self, variable: int, array: object = None) -> str:
        """Return number and name of a variable, or of all that are one vector; where `array` holds a number that is not finite,
        of the variable of the first such number alone."""
        joined = self._joined[variable]
        first, last = joined.variables[0], joined.variables[-1]
        if first != last and isinstance(array, np.ndarray) and array.shape == (sum(joined.sizes),):
            wrong = np.flatnonzero(~np.isfinite(array))
            first, last = (joined.at(int(wrong[0])),) * 2 if wrong.size else (first, last)
        names = self.variable_names
        if first == last:
            return f"variable {first}" + (f" ({names[first]})" if names else "")
        return f"variables {first} to {last}" + (f" ({names[first]} to {names[last]})" if names else "")

    def _where(self, variable: int, array: object = None) -> str:
        """Return codec, variable and batch, for messages; people count from 1."""
        epoch, batch = self._step
        return f"{self._names[variable]}, {self.describe(variable, array)}, epoch {epoch + 1}, batch {batch + 1}"

    def answer(self, variable: int, node: int, step: tuple[int, int]) -> None:
        """Let the codec of a server answer the packets that `node` sent in `step`."""
        watch = self._watch
        start, sent = watch.clock(), watch.send
        self.begin(step)
        self._enter(variable)
        codec = self.codecs[variable]
        if isinstance(codec, Answering):
            self._post(variable, codec.answer(node), "answer")
        # `_post` may have handed packets to the system: these seconds are sending, and counted there
        watch.encode += watch.clock() - start - (watch.send - sent)

    @staticmethod
    def _receive_late(codec: Codec, content: Any) -> Packets:
        return codec.receive_late(content) if isinstance(codec, TakingLate) else None

    def receive_late(self, variable: int, content: object, step: tuple[int, int], sender: int) -> None:
        """Give a packet of the batch finished last to its codec; an answer carries the same (epoch, batch).

        It may still be merged (under `Delay` its batch goes on), so it is taken, and refused, as one in time.
        Raises: as `receive`.
        """
        # an answer carries the batch of the packet; that of the running batch comes back even if the codec fails
        now, self._step = self._step, step
        self._settings.step = step
        try:
            self.receive_all(variable, ((sender, content),), late=True)
        finally:
            self._step = self._settings.step = now

    def peers(self) -> list[int]:
        """Return the other workers that have not left and are not lost."""
        return [node for node in self.channel.peers() if node >= 0]

    def tell_peers(self, content: object) -> None:
        """Send a packet of the sync type itself to all other workers; it arrives under the id after the last variable."""
        self._tell(len(self.codecs), content)

    def tell_computing(self) -> None:
        """Tell all other workers, at once, that this one still computes its blocks of the batch: results are not overdue."""
        if self._tells:
            self._tell(self._word, None)
            self.flush()

    def silence(self) -> float:
        """Return the seconds since another worker said that it still computes this batch or an earlier one."""
        return self.clock() - self._heard_word

    def _tell(self, place: int, content: object) -> None:
        # a number that no variable has: peers tell it apart from packets of codecs
        key = (self._attempt, *self._step, place)
        wire = 0
        for target in self.peers():
            size = self.channel.post(target, key, content)
            if size is not None:
                self.accounts.sent(key[3], target, size)
                wire = size.wire
        self.corked += wire

    def rescue(self, variable: int) -> bool:
        """Let the codec try to save an overdue result; return True when it sent something."""
        self._enter(variable)
        # packets to nodes that are gone do not count: nothing was tried then
        method = "do_something_to_save_yourself"
        return self._post(variable, self.codecs[variable].do_something_to_save_yourself(), method) > 0

    def flush(self) -> None:
        """Let corked packets leave."""
        if self.corked:
            start = self._watch.clock()
            self.corked = 0
            self.channel.flush()
            # most often the system takes all at once, and `settled` spares the question later
            self.flushed()
            self._watch.sent = self._watch.clock()
            self._watch.send += self._watch.sent - start

    @property
    def partner(self) -> int | None:
        """The node that sent the packet which was merged last."""
        return self._settings.sender

    def suspects(self) -> Collection[int]:
        """Return the peers that may be stuck: the failure detector will say so in a moment, or that they are well."""
        return self.channel.suspects()

    def flushed(self) -> bool:
        """Return True when the arrays of all posted packets may change."""
        if not self.channel.flushed():
            return False
        self.unsent, self.settled = 0, True
        return True

    @property
    def unread_parameters(self) -> list[int]:
        """The places of parameters that nothing on this node has looked up so far."""
        return self._settings.parameters.unread

    @property
    def takes_first_copy(self) -> bool:
        """Whether every codec can do without a node as long as other nodes hold its blocks."""
        return all(codec.traits.takes_first_copy for codec in self.codecs)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the codecs, as `<variable>.<name>`."""
        found = [(i, codec) for i, codec in zip(self._ids, self.codecs, strict=True) if isinstance(codec, Remembering)]
        return {f"{i}.{name}": value for i, codec in found for name, value in codec.state_dict().items()}

    def has_in_common(self, name: str) -> bool:
        """Tell whether all workers remember the same of something in the state.

        Args:
            name: its name there.
        """
        variable, part, *_ = name.split(".")
        return part in getattr(self.codecs[self._ids.index(int(variable))], "in_common", ())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_dict` returned.

        Raises: ValueError for a variable that there is not; any error of a codec.
        """
        own: dict[int, dict[str, Any]] = {variable: {} for variable in self._ids}
        for key, value in state.items():
            variable, _, name = key.partition(".")
            # a checkpoint of another model or choice of codecs
            if not variable.isdecimal() or int(variable) not in own:
                raise ValueError(f"A state of codecs must hold '<variable>.<name>' for {len(own)} variables, got {key!r}")
            own[int(variable)][name] = value
        for codec, part in zip(self.codecs, own.values(), strict=True):
            if isinstance(codec, Remembering):
                codec.load_state_dict(part)
            elif part:
                # silence would train on with a memory lost
                raise ValueError(f"{type(codec).__name__} remembers nothing, got {', '.join(sorted(part))}")

    @property
    def staleness(self) -> Counter[int]:
        """Gradients that were applied, counted by their age in steps, over the codecs that count it."""
        found = Counter[int]()
        for codec in self.codecs:
            found.update(age_counts(codec))
        return found

    def dispose(self) -> None:
        """Let the codecs go of memory, at the end of the job."""
        self.closed = True
        for codec in self.codecs:
            codec.dispose()

    def _enter(self, variable: int) -> None:
        """Note that the code of this variable's codec runs now."""
        self._settings.codec, self._settings.variable = self._names[variable], self._ids[variable]

    def _no_packet(self, variable: int, got: object) -> TypeError:
        return TypeError(
            f"{self._names[variable]} must return None, a netEncapsulation or an iterable of them, got {type(got).__name__}"
        )

    def _no_target(self, target: object) -> ValueError:
        server = " (the parameter server is one with local_workers(n, ps=True), --ps)" if target == Parameter_Server else ""
        return ValueError(f"node {target} is none of the other nodes of the job, {sorted(self.channel.peers())}{server}")

    def _post(self, variable: int, packets: Packets, method: str = "update_blocks", sender: int | None = None) -> int:
        """Post packets that a method of a codec returned; return their number.

        Args:
            variable: place of the codec.
            packets: the packets.
            method: its name, for messages.
            sender: of the packet that it was given, for messages.

        Raises: TypeError or ValueError for packets that cannot be sent; names codec, method and variable unless they are ours.
        """
        if packets is None:
            return 0
        try:
            if variable not in self.uploads or method != "update_blocks":
                return self._post_all(variable, packets)
            contents: dict[int, tuple[object, int]] = {}
            count = self._post_all(variable, packets, contents)
            self.uploads[variable] = sum(raw for _, raw in contents.values())
            return count
        except (TypeError, ValueError) as error:
            # a generator of the author's fails in words of its own
            if own_frames(error.__traceback__) or _is_ours(getattr(type(self.codecs[variable]), method)):
                raise
            what = f"{self._names[variable]}.{method} returned what cannot be sent: {str(error).rstrip('.')}"
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{what}{self._of_packet(variable, sender)}") from None

    def _post_all(
        self,
        variable: int,
        packets: netEncapsulation | Iterable[netEncapsulation],
        contents: dict[int, tuple[object, int]] | None = None,
    ) -> int:
        """Post packets; return their number.

        Args:
            variable: place of the codec.
            packets: the packets.
            contents: takes what was sent, and its bytes, by the object's id: what goes to several nodes in packets of their own
                is there once, as a client would send it to its server.
        """
        if isinstance(packets, netEncapsulation):
            packets = (packets,)
        # an array is a row of numbers, which are no packets either
        elif not isinstance(packets, Iterable) or isinstance(packets, np.ndarray):
            raise self._no_packet(variable, packets)
        self.settled = False
        count = bytes_sent = overhead_sent = 0
        post, rows = self.channel.post, self.accounts.rows
        for packet in packets:
            wire = 0
            if not isinstance(packet, netEncapsulation):
                raise self._no_packet(variable, packet)
            targets = packet.targets
            key = (self._attempt, *self._step, variable)  # one per packet: so a channel sees what goes to several targets
            # see `from_neighbour`: not all nodes to the same one first
            for target in targets if len(targets) < 2 else from_neighbour(targets, self.node_id):
                # no link leads there, and the packet would be missing for ever
                if target == self.node_id:
                    raise ValueError(
                        f"{self._names[variable]} sends variable {self._ids[variable]} to its own node {target}: "
                        f"use set_result for what stays here"
                    )
                try:
                    size = post(target, key, packet.content)
                except NoSuchNode:
                    raise self._no_target(target) from None
                # None: the node is gone; nothing travelled, so nothing is counted
                if size is not None:
                    row = rows[SENT, variable, target]
                    raw, overhead, shared = size
                    row[0] += 1
                    row[1] += raw
                    row[2] += overhead
                    if shared:
                        row[3] += 1
                        row[4] += raw
                    if contents is not None:
                        contents[id(packet.content)] = packet.content, raw
                    wire = raw + overhead
                    self.unsent += wire
                    count += 1
                    bytes_sent += raw
                    overhead_sent += overhead
            # the bytes for one peer, not for all: those of the last target stand for each
            self.corked += wire
        if count:
            counts, (place, variables) = self.accounts.counts[self._step], self.accounts.places[variable]
            counts[place + SENT_AT] += count * variables
            counts[place + SENT_AT + 1] += bytes_sent
            counts[place + SENT_AT + 2] += overhead_sent
        # a large variable leaves while earlier ones are still computed
        if self.corked > self._cork:
            self.flush()
        return count


def _key_of(packet: tuple[int, Message]) -> tuple[int, ...]:
    return packet[1].head


def _is_ours(method: object) -> bool:
    return str(getattr(method, "__module__", "")).partition(".")[0] in OWN_PACKAGES


def from_neighbour(targets: Iterable[int], node: int) -> list[int]:
    """Return targets in the order in which a node sends to them: first the next ones, then those before it.

    If each began with the lowest one, all would send to the same node at the same time, and its link would be the slowest.

    Args:
        targets: ids of nodes.
        node: the sending node.
    """
    # a set has no order of its own, and that of packets must be the same in every run
    ordered = sorted(targets)
    first = bisect_right(ordered, node)
    return ordered[first:] + ordered[:first]


def _is_usual(content: object, like: Like, forms: tuple[Any, ...]) -> bool:
    """Tell whether a content is like that of nearly all packets, one array of the shape and type that are put, of finite
    numbers, alone or after integers: then `check_packet` would take it."""
    if type(content) is tuple:
        form = tuple(map(type, content))
        if form not in forms or not INTEGERS.issuperset(form[:-1]):
            return False
        array = content[-1]
    # a bare array, where the codec sends tuples: `check` says so
    elif forms and np.ndarray not in forms:
        return False
    else:
        array = content
    return (
        type(array) is np.ndarray
        and array.shape == like.shape
        and array.dtype == like.dtype
        and array.dtype.char in "fd"
        and math.isfinite(np.vdot(array, array))
    )

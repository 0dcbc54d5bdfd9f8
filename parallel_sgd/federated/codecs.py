"""Codecs of a job with clients: those that send changes as they are, those that encode client by client, and the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np

from nn.model import Model

from ..codec.choice import is_whole
from ..codec.compose.parts import Composition, Parts, flat
from ..codec.compose.reduce import Reducing
from ..codec.compose.trigger import Trigger
from ..codec.interfaces import Codec
from ..codec.pipeline import Stage
from ..codec.pipeline.pipeline import Pipeline
from ..codec.pipeline.stage import Draw, Writer
from ..codec.settings import GlobalSettings, MissingParameter
from ..profiles.blockassignment.abstract import ISetting
from .clients import Clients
from .contributions import personal_places
from .samplers import BufferedSampler

__all__ = ["bytes_of_clients", "check_codec", "fewest_clients", "memory_bytes"]

#: Codecs that are settings of `Clients`: by their names the setting.
_SETTINGS: Final = {
    "FedAvg": "the default of Clients, server=SGDOptimizer(1.0)",
    "LocalSGD": "Clients(epochs=..)",
    "DiLoCo": "Clients(server=NesterovOptimizer(0.7, 0.9))",
    "DiLoCoPS": "Clients(server=NesterovOptimizer(0.7, 0.9))",
    "FedProx": "Clients(prox=..)",
    "SCAFFOLD": "Clients(control_variates=True)",
    "FedAdam": "Clients(server=ADAMOptimizer(..))",
    "ServerAdam": "Clients(server=ADAMOptimizer(..))",
}
#: Codecs without a composition that send the changes of blocks as they are, and take their mean.
_EXACT: Final = ("Plain", "SyncPS")
_TRIED: Final = 64  # numbers of the vector with which a stage is tried


def check_codec(kind: type[Codec], clients: Clients, assignment: ISetting, parameters: Mapping[Hashable, Any]) -> None:
    """Check that a codec goes with clients.

    Args:
        kind: class of the codec.
        clients: those of the job.
        assignment: that of the job.
        parameters: `codec_extra_parameters` of the job.

    Raises: ValueError naming the codec and the part that does not go with clients, with the remedy.
    """
    name, traits = kind.__name__, kind.traits
    if name in _SETTINGS:
        raise ValueError(f"'codec' {name} is no codec with 'clients': it is {_SETTINGS[name]}")
    if not traits.agrees or traits.asynchronous or traits.takes not in (None, "gradients") or traits.gives == "parameters":
        raise ValueError(
            f"'codec' {name} does not give all workers one mean of the changes of a round, which 'clients' needs: take "
            f"Plain, Ring, Tree, or SyncPS with a parameter server"
        )
    composition = _composition(kind)
    if composition is None:
        if kind.__module__.startswith("parallel_sgd.") and name not in _EXACT:  # of a user's own class the traits are believed
            raise ValueError(
                f"'codec' {name} puts the blocks of a worker together before it encodes them, which would not be client by "
                f"client: take Plain, which merges the first copy of a redundant block, or a codec made by Codec.of"
            )
        return
    parts = _parts(composition, assignment, parameters)
    if parts is None or _is_exact(composition, parts):
        return
    for fault in _faults(kind, composition, parts, clients):  # a generator: no more faults are looked for than the first
        raise ValueError(f"'codec' {name} {fault}")


def fewest_clients(kinds: Iterable[type[Codec]], assignment: ISetting, parameters: Mapping[Hashable, Any]) -> tuple[int, str]:
    """Return the number of clients that each round needs for the merge rules of its codecs, and the name of the codec.

    Args:
        kinds: classes of the codecs of the workers.
        assignment: that of the job.
        parameters: `codec_extra_parameters` of the job.
    """
    found = (1, "")
    for kind in dict.fromkeys(kinds):
        composition = _composition(kind)
        parts = None if composition is None else _parts(composition, assignment, parameters)
        if parts is not None:
            found = max(found, (parts.merge.fewest, kind.__name__))
    return found


def _composition(kind: type[Codec]) -> Composition | None:
    found = getattr(kind, "composition", None)
    return found if isinstance(found, Composition) else None


def _parts(composition: Composition, assignment: ISetting, parameters: Mapping[Hashable, Any]) -> Parts | None:
    """Make the parts of a codec as in the job; None where one needs a parameter that the job does not give, which is refused
    with its own words.
    """
    with GlobalSettings.use(assignment, parameters):  # parts read the parameters of the job when they are made
        try:
            return composition.make()
        except MissingParameter:
            return None


def _is_exact(composition: Composition, parts: Parts) -> bool:
    """Tell if a codec sends vectors as they are in every batch, and takes their mean."""
    plain = (parts.up, parts.down, parts.local) == (None, None, None)
    merge = parts.merge.exact or parts.merge.first_copy
    return plain and merge and parts.trigger.always and not parts.trigger.late and composition.exchange.quorum == 1


def _faults(kind: type[Codec], composition: Composition, parts: Parts, clients: Clients) -> Iterable[str]:
    """Yield what keeps a composed codec from encoding client by client, with the remedy."""
    exchange, trigger = composition.exchange, parts.trigger
    if parts.local is not None:
        yield (
            f"changes values by {parts.local!r}, which would be by worker: local rules are settings of a client's steps, such "
            f"as Clients(prox=..)"
        )
    if not trigger.always or trigger.late or trigger.skips:
        yield (
            f"exchanges when {trigger!r} says so, but a round of clients ends with its own exchange: take trigger=Every(1), "
            f"and Clients(epochs=..) for fewer exchanges"
        )
    if exchange.quorum < 1:
        yield f"merges without some workers ({exchange!r}), but any worker trains any client: take PS()"
    if parts.code is not None or (exchange.linear and parts.stage is not None):
        instead = "TopK or QSGD" if parts.code is not None else f"Codec.of(AllToAll(), up={parts.up!r})"
        yield (
            f"adds up encodings on their way ({type(exchange).__name__} with {parts.up!r}), and each client must be encoded by "
            f"itself: take {instead}"
        )
    if not issubclass(kind, Reducing):
        yield f"exchanges by {exchange!r}, which has no way for single clients: take AllToAll(), ShardedPS() or PS()"
    if parts.merge.weights is not None:
        yield f"weighs by worker ({parts.merge!r}): leave 'weights' out, and take Clients(weigh=..)"
    if parts.down is not None and _state_bytes(parts.down, _TRIED):
        yield (
            f"remembers on the way back what it has not sent ({parts.down!r}), but clients that are not in a round get "
            f"nothing: leave 'down' out, or take a stage without a memory"
        )
    late = [stage for stage in flat(parts.stage) if stage.needs_every_packet]
    if late:
        yield f"has receivers remember each sender ({late[0]!r}), which clients are not: take ErrorFeedback(..)"
    if clients.weigh == "steps":
        yield (
            "encodes client by client, and Clients 'weigh' \"steps\" would have it encode changes by step, whose number "
            "differs: take weigh='samples' or 'equal'"
        )
    if isinstance(clients.sample, BufferedSampler) and clients.sample.damping:
        yield (
            "merges by a mean over the weights, which would divide the damping of stale changes out again: take "
            "BufferedSampler(.., damping=0), or Plain"
        )
    if type(trigger).uploads is not Trigger.uploads:
        yield f"goes on with earlier uploads ({trigger!r}), which clients do not have: take trigger=Every(1)"


def bytes_of_clients(
    clients: Clients,
    kinds: Sequence[type[Codec]],
    model: Model,
    assignment: ISetting,
    parameters: Mapping[Hashable, Any],
) -> tuple[int, int]:
    """Return the bytes of a client's change, as codecs say that vectors of such sizes take, and of the model that it gets.

    Args:
        clients: those of the job.
        kinds: class of the codec of each variable.
        model: the model.
        assignment: that of the job.
        parameters: `codec_extra_parameters` of the job.
    """
    variables = model.store.variables
    buffers = model.store.buffers
    personal, statistics = personal_places(clients, [each.name for each in variables], [each.name for each in buffers])
    stay = set(personal)
    values = [each.value for place, each in enumerate(variables) if place not in stay]
    own = [kind for place, kind in enumerate(kinds) if place not in stay]
    sent = sum(value.nbytes for value in values)
    # c comes down with the model, and the change of c_i goes up with that of the model
    beside = sum(each.value.nbytes for place, each in enumerate(buffers) if place not in statistics)
    beside += sent * clients.control_variates
    if is_whole(kinds):
        values, own = [model.store.values], own[:1]
    up = 0
    for kind, value in zip(own, values, strict=True):
        composition = _composition(kind)
        parts = None if composition is None else _parts(composition, assignment, parameters)
        up += value.nbytes if parts is None or parts.stage is None else Pipeline(parts.stage).wire_bytes(value.size)
    return up + beside, sent + beside


def memory_bytes(kind: type[Codec], size: int, assignment: ISetting, parameters: Mapping[Hashable, Any]) -> int:
    """Return the bytes that a codec remembers of each client for a variable.

    Args:
        kind: class of the codec, one that goes with clients.
        size: number of elements of the variable.
        assignment: that of the job.
        parameters: `codec_extra_parameters` of the job.
    """
    composition = _composition(kind)
    parts = None if composition is None else _parts(composition, assignment, parameters)
    if parts is None or parts.stage is None:
        return 0
    # tried with short vectors: a memory is of the size of its vector, or a few numbers
    # copies: the first trial would leave its memory to the second
    short, long = (_state_bytes(deepcopy(parts.stage), count) for count in (_TRIED, 2 * _TRIED))
    return short + max(0, (long - short) * (size - _TRIED) // _TRIED)


def _state_bytes(stage: Stage, count: int) -> int:
    """Return the bytes of the state that a stage has after it has encoded a vector of so many numbers."""
    with np.errstate(all="ignore"):  # the scale of a vector of zeros may be 0 / 0
        stage.encode(np.zeros(count, np.float32), Writer(), Draw(0, 0, 0, 0, 0))
    return sum(value.nbytes if isinstance(value, np.ndarray) else 8 for value in stage.state_dict().values())

"""Codec classes made of parts; the refusal of parts that do not fit together, and warnings of those that train badly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from network.names import did_you_mean
from nn.extension import level_of_user
from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.codec.settings import GlobalSettings, MissingParameter
from parallel_sgd.codec.traits import SCOPES, Scope, Traits
from parallel_sgd.profiles.blockassignment.assignments import IIDBlockAssignment

from .merge import Mean, MergeRule, WeightedMean
from .parts import SENDS, Composition, ExchangePattern, Given, LocalRule, Parts, Up, flat
from .trigger import Every, Trigger

#: A contraction of this much or more, of a vector of TYPICAL size, is so small an error that it needs no memory.
HARMLESS = 0.9
TYPICAL = 4096


class CodecWarning(UserWarning):
    """Warning of a codec that is possible, but known to train badly; the message tells the remedy."""


def build(
    base: type[Any],
    exchange: ExchangePattern,
    *,
    up: Given[Up] = None,
    down: Given[Stage | None] = None,
    send: str = "gradient",
    merge: Given[MergeRule] | None = None,
    trigger: Given[Trigger] | None = None,
    local: Given[LocalRule | None] = None,
    scope: Scope | None = None,
    name: str | None = None,
) -> type[Codec]:
    """Return a codec class of these parts, derived from `base`: see `Codec.of`.

    Args:
        base: the subclass of `Composed` that exchanges in the pattern's way.
        exchange: the exchange pattern.
        up: a stage, or `PowerSGD`, on the way to the node that merges; None sends arrays as they are.
        down: a stage on the way back; None sends merged arrays as they are.
        send: "gradient", "weights" or "delta".
        merge: a merge rule; None: `Mean()`.
        trigger: says in which batches there is an exchange; None: `Every()`.
        local: a rule for a worker's own values, or None.
        scope: "variable" or "model"; None: "model" where a part is of that scope.
        name: the name of the class; None makes one of the names of the parts.

    Raises: TypeError or ValueError where parts do not fit together. Warns with CodecWarning.
    """
    if send not in SENDS:
        raise ValueError(f"Codec.of() 'send' must be one of {', '.join(SENDS)}, got {send!r}{did_you_mean(send, SENDS)}")
    merge, trigger = Mean() if merge is None else merge, Every() if trigger is None else trigger
    if scope is not None and scope not in SCOPES:
        known = f"Codec.of() 'scope' must be one of {', '.join(SCOPES)}, got {scope!r}"
        raise ValueError(known + (did_you_mean(scope, SCOPES) if isinstance(scope, str) else ""))
    composition = Composition(exchange, up, down, send, merge, trigger, local, scope or "variable")
    # tried at once, so that parts which do not fit are refused where the class is written, not on the nodes
    parts = _trial(composition)
    if parts is not None:
        if scope is None and parts.of_the_model:
            composition = replace(composition, scope="model")
        refuse(composition, parts)
        for text in doubts(parts, send):
            # the caller of `Codec.of`, whose line the warning shows
            warnings.warn(text, CodecWarning, stacklevel=level_of_user())
    members: dict[str, Any] = {
        "composition": composition,
        "traits": _traits(base.traits, composition, parts),
        "__module__": "__main__",  # of no module: it travels by its parts; a shipped one belongs to that of its recipe
    }
    if parts is not None:
        members["__doc__"] = f"Composed: Codec.of({composition.describe(parts)})."
    kind: type[Codec] = type(base).__new__(type(base), _checked_name(name) or _default_name(exchange, parts), (base,), members)
    return kind


def _traits(base: Traits, composition: Composition, parts: Parts | None) -> Traits:
    """Return the traits of a composition; `parts` is None where one of them needs a parameter of the job."""
    exchange, send = composition.exchange, composition.send
    traits = replace(
        base,
        needs_server=exchange.needs_server,
        serves=exchange.needs_server,
        agrees=exchange.agrees,
        takes="parameters" if send != "gradient" else None,
        scope=composition.scope,
    )
    if parts is None:
        return traits
    by_number = _by_number(parts, send)
    return replace(
        traits,
        # parts that let workers go their own ways between exchanges leave them with models of their own
        agrees=exchange.agrees and parts.trigger.always and (parts.local is None or parts.local.agrees),
        # with quorum or an encoding of workers' means a worker that is missing is missed
        takes_first_copy=exchange.merges_first_copies and composition.grain(parts).first_copy,
        elementwise=by_number,
        takes_sums=by_number,
        reads_in_place=by_number,  # sums are made in memory of their own
        gives="parameters" if parts.updates else None,
        takes=traits.takes or ("gradients" if parts.updates else None),
    )


def _by_number(parts: Parts, send: str) -> bool:
    """Tell whether the result is a mean, number by number, so that numbers may lie in any vector."""
    # an encoding may look at norms and places, which joined vectors would change
    encodes = any(part is not None for part in (parts.up, parts.down, parts.local))
    return send == "gradient" and not encodes and type(parts.merge) is Mean and type(parts.trigger) is Every


def _trial(composition: Composition) -> Parts | None:
    """Make the parts once, as in a job without parameters; None where they need one."""
    with GlobalSettings.use(IIDBlockAssignment(4)):
        try:
            return composition.make()
        except MissingParameter:
            # a codec that needs a parameter is looked at again in the job, in its constructor
            return None


def _checked_name(name: str | None) -> str | None:
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise ValueError(f"Codec.of() 'name' must be a name for a class, got {name!r}")
    return name


def _default_name(exchange: ExchangePattern, parts: Parts | None) -> str:
    """Return words of which the parts are made: `ShardedPSErrorFeedbackTopK`."""
    words = [type(exchange).__name__]
    todo: list[object] = [] if parts is None else [*flat(parts.stage)] or [parts.up]
    while todo:
        part = todo.pop(0)
        if part is not None:
            words.append(type(part).__name__)
            inner = getattr(part, "inner", None)
            todo[:0] = flat(inner) if isinstance(inner, Stage) else []
    return "".join(words)


def refuse(composition: Composition, parts: Parts) -> None:
    exchange, merge, trigger = composition.exchange, parts.merge, parts.trigger
    where = type(exchange).__name__
    if composition.scope == "variable" and parts.of_the_model:
        part = parts.of_the_model[0]
        raise ValueError(
            f'{part!r} looks at the gradient as a whole: write scope="model", or leave it out, where the part is no function; '
            f'to have one for each variable derive a class from {type(part).__name__} with scope = "variable"'
        )
    if composition.scope == "model" and parts.code is not None and parts.code.matrices:
        raise ValueError(f'{parts.code!r} needs matrices, but scope="model" makes one vector of all variables: leave it out')
    # payloads are added as they arrive, before anything could look at single ones
    if exchange.linear and not merge.linear:
        raise ValueError(f"{where} adds up on the way, which {merge!r} cannot use: take ShardedPS() or AllToAll()")
    if parts.code is not None and not (merge.linear and exchange.rounds):
        raise ValueError(f"PowerSGD needs means of its factors: take Ring(), AllToAll() or PS() with merge=Mean(), got {where}")
    # the sum of encoded vectors is the encoding of the sum for linear stages alone
    if exchange.linear and parts.stage is not None and not parts.stage.linear:
        raise ValueError(
            f"{where} adds up payloads, but {parts.up!r} is not linear: take ShardedPS(), which decodes before it adds"
        )
    sending = flat(parts.stage)
    # parameters hardly shrink: what a stage leaves out of them is most of the model
    if composition.send == "weights" and any(stage.leads or stage.feeds_back for stage in sending):
        raise ValueError(
            f'{parts.up!r} is made for gradients and changes, not for parameters themselves: use send="delta"'
            f"{', or DiffRef(...)' if not exchange.linear else ''}"
        )
    if not exchange.agrees:
        _refuse_mixing(composition, parts)
    if parts.down is not None and (exchange.linear or not exchange.returns):
        raise ValueError(
            f"{where} encodes nothing on the way back, so 'down' has no use: leave it out, or take ShardedPS() or PS()"
        )
    # on the way down there is no gradient to be shaped
    if any(stage.leads for stage in flat(parts.down)):
        raise ValueError(f"Codec.of() 'down' must be what sends; {parts.down!r} belongs to 'up' or into ServerOpt")
    if merge.first_copy and parts.code is not None:
        raise ValueError("FirstCopy needs an encoding of single blocks: PowerSGD sends means of workers; use merge=Mean()")
    # a change is that of a worker's own parameters since the last exchange, not that of a block
    if merge.first_copy and composition.send == "delta":
        raise ValueError("FirstCopy counts blocks, but what has changed since the last exchange belongs to workers: use Mean()")
    if not trigger.always and composition.send == "gradient":
        raise ValueError(
            f"{trigger!r} lets workers go their own ways in between, so they must exchange parameters: "
            f'use send="weights" or send="delta" with op_type=ParameterAveragingOptimizer'
        )
    # `Delay` gives the result of the batch before
    if trigger.late and composition.send != "gradient":
        raise ValueError(f"{trigger!r} is for gradients and updates; parameters of an earlier batch would undo a step")
    if trigger.late and merge.updates:
        raise ValueError(f"{trigger!r} gives results of an earlier batch, but {merge!r} gives parameters: use Every(1)")
    if merge.updates and composition.send == "weights":
        raise ValueError('ServerOpt makes a step of what has changed: use send="delta", or "gradient"')
    if merge.updates and not exchange.agrees:
        raise ValueError(f"ServerOpt needs one result for all, but {where} gives every worker its own: use PS() or AllToAll()")
    if trigger.skips:
        stage = parts.stage
        # a worker that skips must know, without sending, what its upload would have been
        if stage is None or not stage.deterministic or _remembers(stage) or not exchange.in_one_place:
            raise ValueError(
                f"{trigger!r} needs a deterministic pipeline without a memory, such as up=Grid(4), and merging as a whole, by "
                f"AllToAll() or PS(); got up={parts.up!r} and {exchange!r}"
            )
    _refuse_local(composition, parts)
    exchange.refuse(composition, parts)


def _refuse_local(composition: Composition, parts: Parts) -> None:
    local = parts.local
    if local is None:
        return
    if composition.send not in local.sends:
        sends = " or ".join(f'send="{send}"' for send in local.sends)
        raise ValueError(f"{local!r} goes with {sends or 'nothing: give its class `sends`'}, got {composition.send!r}")
    if not composition.exchange.agrees or parts.trigger.late:
        raise ValueError(f"{local!r} needs one result for all, of the same batch: take AllToAll(), ShardedPS(), Ring() or PS()")
    if local.means and type(parts.merge) not in (Mean, WeightedMean):
        raise ValueError(
            f"{local!r} needs the mean of what it sends, got {parts.merge!r}: leave 'merge' out, or WeightedMean()"
        )
    if local.width > 1 and parts.code is not None:
        raise ValueError(
            f"{local!r} sends {local.width} vectors in one packet, but {parts.up!r} needs a matrix: leave 'up' out"
        )
    if local.updates and not parts.trigger.dense(0):
        raise ValueError(
            f"{local!r} begins with dense batches: take trigger=Warmup(n) with n of at least 1, got {parts.trigger!r}"
        )
    if parts.merge.first_copy:
        raise ValueError(f"{parts.merge!r} counts blocks, but {local!r} changes what a worker has: use Mean()")


def _refuse_mixing(composition: Composition, parts: Parts) -> None:
    where = type(composition.exchange).__name__
    if composition.send != "weights":
        raise ValueError(
            f'{where} mixes what workers have, and only parameters come together again: use send="weights" '
            f"with op_type=ParameterAveragingOptimizer, got send={composition.send!r}"
        )
    if type(parts.merge) is not Mean:
        raise ValueError(f"{where} has weights of its own, so {parts.merge!r} has no use: leave 'merge' out")


def doubts(parts: Parts, send: str) -> Iterator[str]:
    """Yield the objections to the parts, each with the fix."""
    for where, stage in (("up", parts.stage), ("down", parts.down)):
        # error feedback, a vote or `Lazy` makes up for what one packet leaves out
        if stage is None or parts.merge.votes or parts.trigger.skips or _remembers(stage):
            continue
        cure = f"DiffRef({stage!r})" if send == "weights" else f"ErrorFeedback({stage!r})"
        delta = stage.delta(TYPICAL)
        # a contraction close to 1 loses next to nothing in any packet
        if not stage.unbiased and (stage.deterministic if delta is None else delta < HARMLESS):
            yield (
                f"{where}={stage!r} loses a part of every vector and remembers nothing of it, so it may stop short of the "
                f"optimum: write {cure}"
            )

    rule = parts.merge.rule
    if rule is not None and momentum_of(rule) and error_fed(parts):
        yield (
            f"ServerOpt has momentum ({momentum_of(rule)}) after what error feedback sends late, which counts that many times "
            f"over: take SGDOptimizer for its rule, or leave the error feedback out"
        )


def momentum_of(rule: IGradientDescent) -> str:
    """Return the rule's argument by which it has momentum, with its value; empty where it has none."""
    for name in ("momentum", "beta1"):
        value = getattr(rule, name, 0)
        if isinstance(value, float) and value > 0:
            return f"{name}={value:g}"
    return ""


def error_fed(parts: Parts) -> bool:
    """Tell whether later packets carry the part that one leaves out, so that momentum must come before it."""
    stages = [*flat(parts.stage), *flat(parts.down)]
    return any(stage.feeds_back for stage in stages)


def _remembers(stage: Stage) -> bool:
    return any(own.ends for own in flat(stage))

"""Advice on a codec for a job: whether it suits optimizer and rule, and the bandwidth that it saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nn import arguments
from nn.gradient_descent import IGradientDescent
from nn.optimizer import FederatedOptimizer, IOptimizer
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline import Draw, Pipeline
from parallel_sgd.codec.settings import GlobalSettings, MissingParameter
from parallel_sgd.profiles.blockassignment.assignments import IIDBlockAssignment

from .builder import error_fed, momentum_of
from .parts import Composition


def check(
    kind: type[Codec], rule: IGradientDescent, op_type: type[IOptimizer], parameters: Mapping[Any, Any] | None = None
) -> list[str]:
    """Return the objections to a codec with this rule and optimizer, each with the fix in words.

    Two combinations are possible, and known to train badly: momentum after a merge of values that error feedback sends late,
    and batches that both the optimizer and the codec leave out.

    Args:
        kind: the codec class.
        rule: the job's gradient-descent rule.
        op_type: the job's optimizer class.
        parameters: the job's `codec_extra_parameters`.
    """
    puts = getattr(op_type, "puts", "")
    if counts_twice(kind, op_type, parameters):
        return [
            f"{kind.__name__} exchanges in some of the batches that it gets, and {op_type.__name__} gives it one of "
            f"{getattr(op_type, 'local_batches', 1)}, so that workers meet as seldom as both numbers together say, or never: "
            f"use op_type=ParameterAveragingOptimizer, with which the codec's own number counts batches"
        ]
    composition = getattr(kind, "composition", None)
    if not isinstance(composition, Composition) or puts != "gradients":
        return []
    # parts may ask for the number of workers; any small job will do
    with GlobalSettings.use(IIDBlockAssignment(4), parameters):
        try:
            parts = composition.make()
        # which parts there will be depends on a parameter that is not known here
        except MissingParameter:
            return []
    momentum = momentum_of(rule)
    if not momentum or not error_fed(parts) or parts.updates:
        return []
    return [
        f"{kind.__name__} sends later what a packet leaves out, and {type(rule).__name__} with {momentum} after the merge "
        f"counts that many times over, at the cost of much accuracy: use op_type=LocalUpdateOptimizer, which applies the rule "
        f"before the codec, or SGDOptimizer with Momentum(0.9) | in front of the error feedback, or DGCMemory in its place"
    ]


def counts_twice(kind: type[Codec], op_type: type[IOptimizer], parameters: Mapping[Any, Any] | None = None) -> bool:
    """Tell if both a codec and an optimizer leave batches out between two exchanges.

    Args:
        kind: the codec class.
        op_type: the optimizer class.
        parameters: the job's `codec_extra_parameters`.
    """
    composition = getattr(kind, "composition", None)
    if not isinstance(composition, Composition) or not issubclass(op_type, FederatedOptimizer) or op_type.local_batches == 1:
        return False
    with GlobalSettings.use(IIDBlockAssignment(4), parameters):
        try:
            return not composition.make().trigger.always
        except MissingParameter:
            return False


REPEATS = 5


class Estimate(NamedTuple):
    """Cost of a payload, and its gain.

    Args:
        payload: bytes of the payload.
        dense: bytes of the dense array, 4n.
        encode: seconds to encode the payload.
        decode: seconds to decode all payloads that come in.
        saved: seconds that the wire is free for: (dense - payload) / bandwidth.
    """

    payload: int
    dense: int
    encode: float
    decode: float
    saved: float

    @property
    def pays(self) -> bool:
        return self.saved > self.encode + self.decode


def estimate(
    kind: type[Codec],
    n: int,
    bandwidth: float,
    workers: int = 2,
    parameters: Mapping[Any, Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Estimate:
    """Measure the way up of a composed codec on this machine, for n normally distributed numbers.

    The median of five runs counts.

    Args:
        kind: a class that `Codec.of` made, of stages.
        n: how many numbers the variable has.
        bandwidth: of the wire, in bytes per second.
        workers: how many workers' payloads each worker decodes, its own among them.
        parameters: the job's `codec_extra_parameters`.
        clock: returns the time in seconds.

    Raises: TypeError for a codec that is not composed of stages, ValueError for numbers that are not positive.
    """
    arguments.integer("estimate()", "n", n, minimum=1)
    arguments.integer("estimate()", "workers", workers, minimum=1)
    arguments.number("estimate()", "bandwidth", bandwidth, 0, open_low=True)
    composition = getattr(kind, "composition", None)
    if not isinstance(composition, Composition):
        raise TypeError(f"estimate() 'kind' must be a class that Codec.of made, got {kind!r}")
    with GlobalSettings.use(IIDBlockAssignment(workers), parameters):
        parts = composition.make()
    if parts.up is not None and parts.stage is None:
        raise TypeError(f"estimate() 'kind' must be made of stages, got one with up={parts.up!r}")
    pipeline, x = Pipeline(parts.stage), np.random.default_rng(0).standard_normal(n, np.float32)
    encode, decode, size = [], [], 0
    for batch in range(REPEATS):
        draw = Draw(0, 0, batch, 0, 0)
        start = clock()
        payload = pipeline.encode(x, draw)
        middle = clock()
        pipeline.decode(payload, (n,), draw)
        encode.append(middle - start)
        decode.append(clock() - middle)
        size = payload.size
    return Estimate(
        size, 4 * n, float(np.median(encode)), workers * float(np.median(decode)), (4 * n - size) / float(bandwidth)
    )

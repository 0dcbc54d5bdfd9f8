"""Triggers, which say in which batches there is an exchange."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from nn import arguments
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, Part, Pipeline
from parallel_sgd.codec.pipeline.stage import room_for


class Trigger(Part):
    """Choice of the batches with an exchange. Each codec counts its batches from 0, on all workers alike. Between exchanges a
    worker keeps its own values."""

    #: Whether results are those of the exchange before.
    late: bool = False
    #: Whether a worker may have nothing to send in a batch with an exchange.
    skips: bool = False

    def uploads(self) -> LastUploads | None:
        """Return the record that decides whether a worker sends, or goes on with its last uploads; None: all workers send."""
        return None

    def fires(self, batch: int) -> bool:
        """Tell whether there is an exchange in this batch."""
        return True

    def dense(self, batch: int) -> bool:
        """Tell whether this batch is sent as it is, past all stages."""
        return False

    @property
    def always(self) -> bool:
        """Whether there is an exchange in every batch."""
        return True


class Every(Trigger):
    """Exchange in every `batches`-th batch. More than 1 is for parameters: `send="weights"` or `send="delta"`.

    Raises: TypeError, ValueError unless it is a positive integer.
    """

    def __init__(self, batches: int = 1) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=1)

    def fires(self, batch: int) -> bool:
        # at the end of each stretch, so that the first exchange has `batches` local steps behind it
        return (batch + 1) % self.batches == 0

    @property
    def always(self) -> bool:
        return self.batches == 1


class Warmup(Trigger):
    """Warm-up: the first batches are exchanged dense; the states of the stages begin after them.

    Args:
        batches: how many batches are dense.
        then: the trigger that decides after them; None: `Every(1)`.

    Raises: TypeError, ValueError unless batches is an integer >= 0 and `then` a trigger.
    """

    def __init__(self, batches: int, then: Trigger | None = None) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=0)
        self.then: Trigger = Every(1) if then is None else arguments.instance(self, "then", then, Trigger)
        self.late = self.then.late

    def fires(self, batch: int) -> bool:
        """Return True in all of the warm-up, then the answer of `then`, which counts from there."""
        return batch < self.batches or self.then.fires(batch - self.batches)

    def dense(self, batch: int) -> bool:
        return batch < self.batches or self.then.dense(batch - self.batches)

    @property
    def always(self) -> bool:
        return self.then.always


class Delay(Trigger):
    """The result of a batch is that of the exchange one batch before; the first one is 0. For gradients and updates.

    So an exchange has the whole time of the next batch, at a staleness of 1. Other codecs of the same job may go without.
    The last batch is sent and never applied.

    Raises: TypeError, ValueError unless batches is 1.
    """

    late = True

    def __init__(self, batches: int = 1) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=1)
        if self.batches != 1:
            # packets of older batches would need more than the two that codecs keep
            raise ValueError(f"Delay 'batches' must be 1: packets of older batches are not kept, got {batches}")


class Lazy(Trigger):
    """Lazily aggregated gradients: a worker encodes the change since its last upload, d = C(x - h), and sends it only if

    ||d||^2 > (xi / depth) sum ||r||^2 over the last `depth` results r + 3 (||e||^2 + ||e'||^2),

    e being the error of d and e' that of its last upload, or if it has not sent for `most` batches. Where nothing comes the
    others go on with the uploads that they have: h is part of the merge in every batch. A packet that says so has no payload.

    In the paper the sum is over steps of the parameters divided by the learning rate; for SGD these are the results. Every
    variable decides for itself. For a deterministic pipeline without a memory, on the whole data or large blocks: under
    the noise of small ones it always fires. With `xi=0, most=1` it always sends.

    Chen et al., "LAG: lazily aggregated gradient for communication-efficient distributed learning", 2018; Sun et al.,
    "Communication-efficient distributed learning via lazily aggregated quantized gradients", 2019.

    Args:
        xi: the weight of the results in the limit, a number >= 0.
        depth: how many last results the limit looks at.
        most: how many batches a worker may go without sending.

    Raises: TypeError, ValueError unless xi >= 0, and depth and most are positive integers.
    """

    skips = True

    def __init__(self, xi: float = 0.8, depth: int = 10, most: int = 100) -> None:
        self.xi = arguments.number(self, "xi", xi, 0)
        self.depth = arguments.integer(self, "depth", depth, minimum=1)
        self.most = arguments.integer(self, "most", most, minimum=1)

    def uploads(self) -> LastUploads:
        return LastUploads(self)


class LastUploads:
    """Uploads of every contributor so far, on one node, with the decision when the own one sends again."""

    def __init__(self, trigger: Lazy) -> None:
        self._trigger = trigger
        self._uploads: dict[int, Array] = {}
        self._own: set[int] = set()
        self._results: deque[float] = deque(maxlen=trigger.depth)
        self._age = 0
        self._ages: dict[int, int] = {}
        self._error = 0.0
        self._difference: Array = np.empty(0, np.float32)
        self.staleness = Counter[int]()
        self.sent = 0
        self.skipped = 0

    def encode(self, contributor: int, x: Array, pipeline: Pipeline, draw: Draw) -> Array | None:
        """Return the payload of the change in `x`, or None where it is not worth sending."""
        # own uploads are in the sum when they are encoded; decoding them again would count them twice
        self._own.add(contributor)
        self._difference = room_for(x, self._difference)
        difference = np.subtract(x, self._upload(contributor, x.size), out=self._difference)
        payload = pipeline.encode(difference, draw)
        # from the own payload, as receivers do: h is the same on both sides to the bit
        new = pipeline.decode(payload, x.shape, draw)
        np.subtract(difference, new, out=difference)
        error = _square(difference)
        # 3 times the errors: the bound of Sun et al., 2019
        limit = self._trigger.xi / self._trigger.depth * sum(self._results) + 3 * (error + self._error)
        self._age += 1
        # never in the first exchange, when there is no result to measure by
        if self._results and self._age < self._trigger.most and _square(new) <= limit:
            self.skipped += 1
            return None
        # e' is the error of the last upload alone, not of what was skipped
        self._age, self._error = 0, error
        upload = self._upload(contributor, x.size)
        np.add(upload, new, out=upload)
        self.sent += 1
        return payload

    def decode(self, contributor: int, payload: Array | None, size: int, pipeline: Pipeline, draw: Draw) -> Array:
        """Take a packet of a contributor; return the sum of all of its uploads. The own ones are in it already.

        `staleness` counts how many batches ago the last upload was.
        """
        upload = self._upload(contributor, size)
        # nothing came: the last upload stands in for it and is one exchange older
        age = self._ages[contributor] = 0 if payload is not None else self._ages.get(contributor, 0) + 1
        self.staleness[age] += 1
        if payload is not None and contributor not in self._own:
            np.add(upload, pipeline.decode(payload, (size,), draw), out=upload)
        return upload

    def observe(self, result: Array) -> None:
        self._results.append(_square(result))

    def state_dict(self) -> dict[str, Any]:
        uploads = {f"upload.{contributor}": value for contributor, value in self._uploads.items()}
        ages = {f"age.{contributor}": age for contributor, age in self._ages.items()}
        counts = {f"tau.{age}": count for age, count in self.staleness.items()}
        return {**uploads, **ages, **counts, "results": np.array(self._results), "age": self._age, "error": self._error}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._uploads = {int(name[7:]): np.array(value) for name, value in state.items() if name.startswith("upload.")}
        self._results = deque(np.asarray(state.get("results", ())).tolist(), maxlen=self._trigger.depth)
        self._age, self._error = int(state.get("age", 0)), float(state.get("error", 0))
        self._ages = {int(name[4:]): int(age) for name, age in state.items() if name.startswith("age.")}
        self.staleness.clear()
        self.staleness.update({int(name[4:]): int(count) for name, count in state.items() if name.startswith("tau.")})

    def _upload(self, contributor: int, size: int) -> Array:
        found = self._uploads.get(contributor)
        if found is None:
            found = self._uploads[contributor] = np.zeros(size, np.float32)
        return found


def _square(x: Array) -> float:
    flat = x.reshape(-1)
    return float(flat @ flat)

"""Way of an array to the bytes of a packet and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arguments import instance
from nn.arrays import Array
from nn.extension import is_ours
from parallel_sgd.engine.unusable import check_finite

from .stage import Chain, Draw, OrDense, Reader, Stage, State, Vector, Writer, check_parsed, check_row

Payload = NDArray[np.uint8]


class Pipeline:
    """Pipeline that encodes and decodes the arrays of one variable on one node.

    A payload never takes more than the 4 n bytes of the dense array: where the stage would need more, the array travels dense,
    after the stages in front that shape the gradient.

    Args:
        stage: the stage, usually a chain of them; None sends float32.
    """

    def __init__(self, stage: Stage | None = None) -> None:
        self.stage: Stage = Chain() if stage is None else instance(self, "stage", stage, Stage)
        stages = self.stage.stages if isinstance(self.stage, Chain) else [self.stage]
        # stages in front shape the gradient, whatever way it travels
        self._dense = Chain(list(takewhile(lambda stage: stage.leads, stages)))
        self._sender = OrDense(self.stage, self._dense)
        self._writer = Writer()
        # a chain looks at its own stages
        self._is_users = not is_ours(type(self.stage))

    def state_dict(self) -> State:
        return self.stage.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a `state` that `state_dict` returned.

        Raises: ValueError for names that the stage does not know.
        """
        self.stage.load_state_dict(state)

    def wire_bytes(self, n: int) -> int:
        """Return the size of the payload of n values: exact, or at most where it depends on the values."""
        chosen = self._sender(n)
        return chosen.side_bytes(n) + 4 * chosen.carried(n)

    def is_dense(self, n: int) -> bool:
        """Tell whether n values travel as they are, because the stage would take more bytes."""
        return self._sender(n) is self._dense

    def encode(self, x: Array, draw: Draw) -> Payload:
        """Return the payload of an array.

        Args:
            x: an array of any shape and float type, of finite numbers.
            draw: keys the random numbers of the packet.

        Raises: ValueError where `x` holds a number that is not finite.
        """
        vector = np.ascontiguousarray(x, np.float32).reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.add.reduce(vector)
        # the sum tells in one pass; it may be infinite for finite numbers, which are then looked at one by one
        if not np.isfinite(total) and not np.isfinite(vector).all():
            raise ValueError(f"a codec takes finite numbers, got {int((~np.isfinite(vector)).sum())} that are not")
        # the writer collects, so that side information and values are one array without another copy
        stage = self._sender(vector.size)
        values = stage.encode(vector, self._writer, draw)
        if self._is_users:
            check_row(stage, "encode", values, stage.carried(vector.size), exact=False)
        self._writer.write(values)
        return self._writer.join()

    def decode(self, payload: Payload, shape: Sequence[int], draw: Draw) -> Vector:
        """Return the array of a payload that a pipeline like this one encoded; valid until the next call.

        Args:
            payload: a row of bytes.
            shape: the shape of the array that was encoded.
            draw: the one that it was encoded with.

        Raises: PayloadError for bytes that such a pipeline does not write, Unusable (its base) for numbers that are not finite.
        """
        n, reader = prod(shape), Reader(payload)
        stage = self._sender(n)
        parsed = stage.parse(reader, n, draw)
        if self._is_users:
            check_parsed(stage, parsed)
        side, carried = parsed
        values: Vector = reader.read(carried, np.float32)
        # bytes behind the end belong to another version or to an attacker
        reader.finish()
        decoded = stage.decode(values, side, n)
        if self._is_users:
            check_row(stage, "decode", decoded, n, exact=True)
        # the last look before it is merged: bytes may decode to anything (SEC-12)
        check_finite(decoded)
        return decoded.reshape(shape)

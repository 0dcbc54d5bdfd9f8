"""What stages that remember have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn import arguments

from ..gradient.gradient_stage import GradientStage
from ..payload import Reader, Writer
from ..stage import Chain, Draw, Stage, State, Vector
from .decoded import Decoded, decoded


class Memory(Stage):
    """Has another stage, or a chain, send a vector, and remembers what the receivers make of the packet.

    A packet is what `inner` alone would write. Where that were more than the 4 n bytes of the dense vector, the vector is
    sent dense, and the memory goes on all the same. Vectors of the memory appear with the first packet.

    Raises: TypeError when `inner` is not a stage; ValueError when it holds a memory of its own, or a stage of the gradient's
    side, which belongs in front of the memory, not into it.
    """

    ends: ClassVar[bool] = True

    def __init__(self, inner: Stage) -> None:
        self.inner: Stage = arguments.instance(self, "inner", inner, Stage)
        for stage in inner.stages if isinstance(inner, Chain) else [inner]:
            if isinstance(stage, GradientStage):
                raise ValueError(
                    f"{type(self).__name__} 'inner' must be what sends, got {inner!r}: what it leaves over would pass "
                    f"{type(stage).__name__} again; write {stage!r} | {type(self).__name__}(...)"
                )
            if isinstance(stage, Memory):
                raise ValueError(f"{type(self).__name__} 'inner' must not remember anything itself, got {stage!r}")
        self.linear = inner.linear
        self.deterministic = inner.deterministic
        self.shared_seed = inner.shared_seed
        self._dense = Chain()
        self._last: tuple[int, Stage] | None = None
        self._vectors: dict[str, Vector] = {}

    def delta(self, n: int) -> float | None:
        """None: what one packet lacks comes with later ones."""
        return None

    def sender(self, n: int) -> Stage:
        """Return the stage that sends n values: `inner`, or an empty chain where `inner` takes more than 4 n bytes."""
        if self._last is None or self._last[0] != n:
            dense = self.inner.side_bytes(n) + 4 * self.inner.carried(n) > 4 * n
            self._last = n, self._dense if dense else self.inner
        return self._last[1]

    def side_bytes(self, n: int) -> int:
        """That of the stage that sends."""
        return self.sender(n).side_bytes(n)

    def carried(self, n: int) -> int:
        """That of the stage that sends."""
        return self.sender(n).carried(n)

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read what the stage that sends wrote."""
        return self.sender(n).parse(reader, n, draw)

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return what was sent."""
        return self.sender(n).decode(values, side, n)

    def send(self, x: Vector, writer: Writer, draw: Draw) -> tuple[Vector, Decoded]:
        """Write the packet of `x`; return the values for the next stage and what receivers will read, from the same bytes.

        Neither shares memory with `x`, so `x` may be changed then.
        """
        stage, own = self.sender(x.size), Writer()
        values = stage.encode(x, own, draw)
        if np.may_share_memory(values, x):
            values = values.copy()
        written = own.join()
        writer.write(written)
        side, _ = stage.parse(Reader(written), x.size, draw)
        return values, decoded(stage, values, side, x.size)

    def decoded(self, values: Vector, side: Any, n: int) -> Decoded:
        """Return what was sent, sparse where it is."""
        return decoded(self.sender(n), values, side, n)

    def vector(self, name: str, n: int) -> Vector:
        """Return the vector of this name that is remembered, zeros at first.

        Raises: ValueError when it has another size.
        """
        found = self._vectors.get(name)
        if found is None:
            found = self._vectors[name] = np.zeros(n, np.float32)
        if found.size != n:
            raise ValueError(f"{type(self).__name__} remembers {found.size} numbers as {name!r}, got {n}")
        return found

    def remembers(self, name: str) -> bool:
        """Whether a vector may have this name."""
        return False

    def state_dict(self) -> State:
        """Return the vectors, and what `inner` remembers as `inner.<name>`."""
        return {**self._vectors, **{f"inner.{name}": value for name, value in self.inner.state_dict().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned; an empty one starts afresh.

        Raises: ValueError for names that this stage does not remember, or what is no vector.
        """
        own = {name: np.array(value, np.float32) for name, value in state.items() if not name.startswith("inner.")}
        for name, value in own.items():
            if not self.remembers(name) or value.ndim != 1:
                raise ValueError(f"{type(self).__name__} does not remember {name!r} of shape {value.shape}")
        self.inner.load_state_dict({name[6:]: value for name, value in state.items() if name.startswith("inner.")})
        self._vectors = own

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

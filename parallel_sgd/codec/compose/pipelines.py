"""The pipelines of one codec: one for each vector that is encoded by itself, made when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Chain, Draw, Pipeline, Stage, Writer


class Pipelines:
    """Copies of a stage, by numbers such as contributor and shard. What they remember is kept by these numbers."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._made: dict[tuple[int, ...], Pipeline] = {}

    def __call__(self, *numbers: int) -> Pipeline:
        """Return the pipeline of these numbers."""
        found = self._made.get(numbers)
        if found is None:
            found = self._made[numbers] = Pipeline(deepcopy(self._stage))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return what all remember, as `<number>,<number>.<name>`."""
        return {
            f"{','.join(map(str, numbers))}.{name}": value
            for numbers, pipeline in self._made.items()
            for name, value in pipeline.stage.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        parts: dict[tuple[int, ...], dict[str, Any]] = {}
        for key, value in state.items():
            numbers, _, name = key.partition(".")
            parts.setdefault(tuple(map(int, numbers.split(","))), {})[name] = value
        self._made.clear()
        for own, part in parts.items():
            self(*own).stage.load_state_dict(part)


class Fronts:
    """The gradient's side of a pipeline, for each contributor by itself."""

    def __init__(self, chain: Chain) -> None:
        self._pipelines = Pipelines(chain) if chain.stages else None
        self._writer = Writer()

    def __call__(self, contributor: int, x: Array, draw: Draw) -> Array:
        """Return what becomes of a vector; valid until the next call."""
        if self._pipelines is None:
            return x
        return self._pipelines(contributor).stage.encode(x.astype("f4", copy=False), self._writer, draw)

    def state_dict(self) -> dict[str, Any]:
        """Return what the stages remember."""
        return {} if self._pipelines is None else self._pipelines.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        if self._pipelines is not None:
            self._pipelines.load_state_dict(state)

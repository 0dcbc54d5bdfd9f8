"""SEC-13: configurations changed at random give a model or a ModelFileError, never another exception."""

import copy
import json
from typing import Any

import numpy as np

from nn import tensor_files
from nn.model import Model, ModelFileError
from nn.random import keyed
from tests.nn.model.models import classifier, samples

MUTANTS = 1500
ODD: list[Any] = [
    None, True, -1, 0, 1, 2**70, 1e308, 0.5, "", "x", "layer.Dense", "custom:Dense", "model.SequentialModel", [], [[]], [-1, 8],
    [-1, 10**12], {}, {"class": "layer.Flatten", "config": {}}, {"class": "model.SequentialModel", "config": {}}, "float64",
    {"class": "initializer.Constant", "config": {"value": "x"}}, {"class": 3, "config": 4}, "\u0000", "é" * 300,
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    found: list[tuple[Any, Any]] = []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found += [(value, key), *places(value[key])]
    return found


def mutant(config: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    for _ in range(int(generator.integers(1, 4))):
        everywhere = places(changed)
        container, key = everywhere[generator.integers(len(everywhere))]
        action = generator.integers(4)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, dict):
            container["odd"] = copy.deepcopy(ODD[generator.integers(len(ODD))])
        elif action == 2:
            other, place = everywhere[generator.integers(len(everywhere))]
            container[key] = copy.deepcopy(other[place]) if place in other or isinstance(other, list) else None
        else:
            container[key] = copy.deepcopy(ODD[generator.integers(len(ODD))])
    return changed


def test_changed_configurations() -> None:
    model, (x, y) = classifier(dropout=0.5), samples()
    model.fit(x, y, epoch=1, verbose=0)
    values, metadata = tensor_files.parse(model.to_bytes())
    config = json.loads(metadata["config"])
    refused, accepted = 0, 0
    for number in range(MUTANTS):
        changed = mutant(config, keyed(0, "mutant", number))
        data = tensor_files.dump(values, {"format": metadata["format"], "config": json.dumps(changed)})
        try:
            assert isinstance(Model.from_bytes(data), Model)
        except ModelFileError:
            refused += 1
        else:
            accepted += 1
    assert refused > MUTANTS / 2, (refused, accepted)
    assert accepted > 0, "a changed seed, for one, is no damage"

"""A model as bytes: weights as tensors, everything else as JSON; see `nn.model.tensors` for the container.

The file names classes and gives their arguments (`nn.registry`). Nothing in it can run, and nothing is allocated before the
tensors fit the structure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments, registry
from nn.arrays import Array, as_dtype
from nn.gradient_descent import IGradientDescent
from nn.loss import Loss
from nn.metric import Metric
from nn.model.progress_file import pack_progress, take_progress
from nn.model.tensors import ModelFileError, dump, parse
from nn.optimizer import IOptimizer

if TYPE_CHECKING:
    from nn.model.model import Model

FORMAT = "psgd.model/2"

_RULE = "rule:"
_KEYS = {"model", "part", "input_shape", "seed", "dtype", "loss", "metrics", "optimizer", "epochs", "fit_seed", "callbacks"}
_FROZEN = "frozen"
"""The only field that may be missing, where no variable is frozen."""


def pack(model: Model) -> bytes:
    """Return the file of a model; raise ValueError before `setup`, TypeError for a configuration that JSON cannot hold."""
    values = {variable.name: variable.value for variable in model.store.everything}
    whole, part = model.origin()
    progress, arrays = pack_progress(model)
    config = {
        "model": {"class": registry.class_name(type(whole)), "config": registry.describe_arguments(whole)},
        "part": part,
        "input_shape": list(model.graph.placeholder.shape),
        "seed": model.seed,
        "dtype": model.dtype.name,
        "loss": registry.describe(model.loss) if model.has_loss else None,
        "metrics": [registry.describe(metric) for metric in model.metrics],
        "optimizer": None,
        **progress,
    }
    frozen = [variable.name for variable in model.store.everything if variable.frozen]
    if frozen:
        config[_FROZEN] = frozen
    values.update(arrays)
    if model.rule is not None:
        state = model.rule.state_dict()
        arrays = {_RULE + name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        config["optimizer"] = {
            "class": registry.class_name(model.op_type),
            "rule": registry.describe(model.rule),
            "state": {name: value for name, value in state.items() if _RULE + name not in arrays},
        }
        values.update(arrays)
    text = json.dumps(config, allow_nan=False, separators=(",", ":"))
    return dump(values, {"format": FORMAT, "config": text})


def unpack(data: bytes | memoryview, base: type[Any], custom_objects: Mapping[str, type[Any]]) -> Model:
    """Return the model of a file; raise ModelFileError naming what is wrong with it."""
    values, metadata = parse(data)
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"not a model file: 'format' must be {FORMAT!r}, got {metadata.get('format', '')[:80]!r}")
    try:
        return _rebuild(_read_config(metadata.get("config", "")), values, base, custom_objects)
    except ModelFileError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"model file: {error}") from error


def _read_config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"'config' is not JSON: {error}") from error
    if not isinstance(config, dict) or config.keys() - {_FROZEN} != _KEYS:
        wrong = sorted(_KEYS ^ config.keys() - {_FROZEN})[:3] if isinstance(config, dict) else "no object"
        raise ModelFileError(f"'config' must have exactly the fields {', '.join(sorted(_KEYS))}; wrong: {wrong}")
    if not isinstance(config["metrics"], list):
        raise ModelFileError(f"'metrics' must be a list, got {str(config['metrics'])[:80]}")
    frozen = config.setdefault(_FROZEN, [])
    if not isinstance(frozen, list) or not all(isinstance(name, str) for name in frozen):
        raise ModelFileError(f"'{_FROZEN}' must be a list of names, got {str(frozen)[:80]}")
    return config


def _refuse(constant: str) -> float:
    raise ValueError(f"the number {constant} is not finite")


def _rebuild(
    config: dict[str, Any], values: dict[str, Array], base: type[Any], custom_objects: Mapping[str, type[Any]]
) -> Model:
    model = _structure(config, base, custom_objects)
    if config["loss"] is not None:
        loss = registry.build(config["loss"], Loss, custom_objects)
        model.setup(loss, *(registry.build(metric, Metric, custom_objects) for metric in config["metrics"]))
    elif config["part"] is None:
        raise ValueError("has no 'loss', which only a part of a model may lack")
    state = {name: values.pop(name) for name in list(values) if name.startswith(_RULE)}
    take_progress(model, config, values)
    shape = arguments.shape("model file", "input_shape", config["input_shape"], unknown=1)
    model.restore(shape, values, config[_FROZEN])
    if config["optimizer"] is not None:
        _restore_optimizer(model, config["optimizer"], state, custom_objects)
    elif state:
        raise ValueError("holds the state of a rule, but no rule")
    return model


def _structure(config: dict[str, Any], base: type[Any], custom_objects: Mapping[str, type[Any]]) -> Model:
    """Return the model, or the part of a model, not built."""
    description = config["model"]
    if not isinstance(description, dict) or description.keys() != {"class", "config"}:
        raise ValueError(f"'model' must have 'class' and 'config', got {str(description)[:80]}")
    found = _built_in_models(base).get(str(description["class"]))
    if found is None:
        found = registry.find_class(description["class"], base, custom_objects)
    model: Model = registry.construct(found, description["config"], custom_objects)
    model.seed = arguments.integer("model file", "seed", config["seed"], minimum=0)
    if not isinstance(config["dtype"], str):
        raise ValueError(f"'dtype' must be a text, got {str(config['dtype'])[:80]}")
    model.dtype = as_dtype(config["dtype"])
    part = config["part"]
    if part is not None:
        if not isinstance(part, dict) or part.keys() != {"whole_shape", "begin", "end"}:
            raise ValueError(f"'part' must have 'whole_shape', 'begin' and 'end', got {str(part)[:80]}")
        if not all(name is None or isinstance(name, str) for name in (part["begin"], part["end"])):
            raise ValueError(f"'part' must name layers, got {str(part)[:80]}")
        model = model.part(part["whole_shape"], part["begin"], part["end"])
    model.input_shape = None
    return model


def _restore_optimizer(
    model: Model, description: object, arrays: Mapping[str, Array], custom_objects: Mapping[str, type[Any]]
) -> None:
    if not isinstance(description, dict) or description.keys() != {"class", "rule", "state"}:
        raise ValueError(f"'optimizer' must have 'class', 'rule' and 'state', got {str(description)[:80]}")
    rule = registry.build(description["rule"], IGradientDescent, custom_objects)
    numbers = description["state"]
    if not isinstance(numbers, dict) or not all(type(value) in (int, float) for value in numbers.values()):
        raise ValueError(f"the 'state' of a rule must hold numbers, got {str(numbers)[:80]}")
    for name, value in arrays.items():
        if (value.shape, value.dtype) != (model.store.values.shape, model.dtype):
            raise ValueError(f"'{name}' does not fit the model's {model.store.values.size} parameters of {model.dtype}")
    rule.load_state_dict({**numbers, **{name.removeprefix(_RULE): value for name, value in arrays.items()}})
    op_type = registry.find_class(description["class"], IOptimizer, custom_objects)
    model.adopt(op_type, rule)


def _built_in_models(base: type[Any]) -> dict[str, type[Model]]:
    """Return the models of this package; users' subclasses are found only where the caller passes them."""
    below = [base]
    for found in below:
        below.extend(found.__subclasses__())
    names = {registry.class_name(found): found for found in below if found is not base}
    return {name: found for name, found in names.items() if name.startswith("model.")}

"""A model as bytes: weights as tensors, everything else as JSON; see `nn.tensor_files` for the container.

The file names classes and gives their arguments (`nn.registry`). Nothing in it can run, and nothing is allocated before the
tensors fit the structure. It also holds the progress of training: epochs, seed, history, and the states of callbacks.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments, registry
from nn.arrays import Array, as_dtype, plain
from nn.extension import level_of_user
from nn.gradient_descent.interface import IGradientDescent
from nn.loss.decisions import Binary_Cross_Entropy
from nn.loss.loss import Loss
from nn.metric.metric import Metric
from nn.model.history import CallbackStates, History, State
from nn.optimizer.interface import IOptimizer
from nn.registry import CustomObjects
from nn.tensor_files import MODEL, ModelFileError, dump, parse
from nn.value.store import not_finite
from nn.value.value import Variable

if TYPE_CHECKING:
    from nn.dataset.plan.plan import Plan
    from nn.model.trained_network import TrainedNetwork

_RULE, _HISTORY, _CALLBACK = arguments.KINDS_OF_STATE
_KEYS = {"model", "part", "input_shape", "seed", "dtype", "loss", "metrics", "optimizer", "epochs", "fit_seed", "callbacks"}
#: A field that may be missing, where no variable is frozen.
_FROZEN = "frozen"
#: A field that may be missing, where there is no plan of columns.
_INPUTS = "inputs"
#: A field that may be missing, where there is one output: factors of the losses, and the number of each metric's output.
_OUTPUTS = "outputs"
_OPTIONAL = {_FROZEN, _INPUTS, _OUTPUTS}


def pack(model: TrainedNetwork, inputs: Plan | None = None) -> bytes:
    """Return the file of a model.

    Args:
        model: set up.
        inputs: the plan of columns, None for that of the model.

    Raises:
        ValueError: before `setup`.
        TypeError: for a configuration that JSON cannot hold.
    """
    model._check_structure()
    values = {variable.name: variable.value for variable in model.store.everything}
    whole, part = model._whole_and_place()
    progress, arrays = pack_progress(model)
    config = {
        "model": {"class": registry.class_name(type(whole)), "config": registry.describe_arguments(whole)},
        "part": part,
        "input_shape": plain(model.graph.placeholder.shape),
        "seed": model.seed,
        "dtype": model.dtype.name,
        "loss": registry.describe(model.loss) if model.has_loss else None,
        "metrics": [registry.describe(metric) for metric in model.metrics],
        "optimizer": None,
        **progress,
    }
    if model.has_loss and (len(model._output_names) > 1 or set(model._aim.factors) - {1.0}):
        aim = model._aim
        factors = dict(zip(aim.places, aim.factors, strict=True))
        config[_OUTPUTS] = {
            "factors": [factors.get(place, 1.0) for place in range(len(model._output_names))],
            "metrics": [aim.places[place] for place in aim.seen],
        }
    trained = set(model.store.variables)
    frozen = [each.name for each in model.store.everything if each.made_trainable and each not in trained]
    if frozen:
        config[_FROZEN] = frozen
    plan = model.inputs if inputs is None else inputs
    if plan is not None:
        config[_INPUTS] = plan.to_dict()
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
    # NaN and Infinity are no JSON, and another reader would refuse the file.
    text = json.dumps(config, allow_nan=False, separators=(",", ":"))
    return dump(values, {"format": MODEL, "config": text})


def unpack(data: bytes | memoryview, base: type[Any], custom_objects: CustomObjects) -> Any:
    """Return the model of a file, an instance of `base`; raise ModelFileError naming the fault."""
    values, metadata = parse(data)
    if metadata.get("format") != MODEL:
        raise ModelFileError(f"not a model file: 'format' must be {MODEL!r}, got {metadata.get('format', '')[:80]!r}")
    try:
        return _rebuild(_read_config(metadata.get("config", "")), values, base, custom_objects)
    except ModelFileError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        # Constructors raise these for arguments; here they are faults of the file.
        raise ModelFileError(f"model file: {error}") from error


def _read_config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"'config' is not JSON: {error}") from error
    if not isinstance(config, dict) or config.keys() - _OPTIONAL != _KEYS:
        wrong = sorted(_KEYS ^ config.keys() - _OPTIONAL)[:3] if isinstance(config, dict) else "no object"
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
    config: dict[str, Any], values: dict[str, Array], base: type[Any], custom_objects: CustomObjects
) -> TrainedNetwork:
    model = _structure(config, base, custom_objects)
    # Past `__setattr__`. `setup` then warns of an ending that it would refuse of a new model.
    vars(model)["_from_file"] = True
    if config["loss"] is not None:
        _set_up(model, config, custom_objects)
    elif config["part"] is None and model._graph is None:  # a graph that the file holds predicts without
        raise ValueError("has no 'loss', which only a part of a model may lack")
    # What is left over in the end are the variables, which must be all that the structure has.
    state = {name: values.pop(name) for name in list(values) if name.startswith(_RULE)}
    take_progress(model, config, values)
    shape = arguments.shape("model file", "input_shape", config["input_shape"], unknown=1, lengths=True)
    model._restore_values(shape, values, config[_FROZEN])
    vars(model)["_from_file"] = False
    if _INPUTS in config:
        from nn.dataset.plan.plan import Plan  # noqa: PLC0415 - for a model that has one

        model.inputs = Plan.from_dict(config[_INPUTS])
    if config["optimizer"] is not None:
        _restore_optimizer(model, config["optimizer"], state, custom_objects)
    elif state:
        raise ValueError("holds the state of a rule, but no rule")
    return model


def _set_up(model: TrainedNetwork, config: dict[str, Any], custom_objects: CustomObjects) -> None:
    """Give the model the losses and metrics of a file."""
    given, names = config["loss"], model._output_names
    listed = given if isinstance(given, list) else [given]
    losses = [None if each is None else registry.build(each, Loss, custom_objects) for each in listed]
    if _OUTPUTS not in config:
        loss = losses[0] if losses else None
        metrics = [registry.build(_of_probabilities(metric, loss), Metric, custom_objects) for metric in config["metrics"]]
        model.setup(loss, *metrics)
        return
    about = config[_OUTPUTS]
    if not isinstance(about, dict) or about.keys() != {"factors", "metrics"} or len(losses) != len(names):
        raise ValueError(f"'{_OUTPUTS}' must have 'factors' and 'metrics' of {len(names)} outputs, got {str(about)[:80]}")
    places = about["metrics"]
    if not isinstance(places, list) or len(places) != len(config["metrics"]):
        raise ValueError(f"'{_OUTPUTS}' must name an output for each metric, got {str(places)[:80]}")
    by_output: dict[str, list[Metric]] = {}
    for place, metric in zip(places, config["metrics"], strict=True):
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(names):
            raise ValueError(f"'{_OUTPUTS}' must number outputs, got {str(place)[:80]}")
        found = registry.build(_of_probabilities(metric, losses[place]), Metric, custom_objects)
        by_output.setdefault(names[place], []).append(found)
    model.setup(losses if len(names) > 1 else losses[0], by_output, loss_weights=about["factors"])


def _of_probabilities(metric: Any, loss: Loss | None) -> Any:
    """Return the description of a metric; in older files its threshold beside this loss is one of scores, often 0."""
    config = metric.get("config") if isinstance(metric, dict) else None
    threshold = config.get("threshold") if isinstance(config, dict) else None
    if not isinstance(loss, Binary_Cross_Entropy) or not isinstance(threshold, (int, float)) or 0 < threshold < 1:
        return metric
    # The logistic function of the score, cut off at 30: a threshold must stay above 0 and below 1.
    share = 1 / (1 + math.exp(-min(max(threshold, -30.0), 30.0)))
    return {**metric, "config": {**metric["config"], "threshold": share}}


def _structure(config: dict[str, Any], base: type[Any], custom_objects: CustomObjects) -> TrainedNetwork:
    description = config["model"]
    if not isinstance(description, dict) or description.keys() != {"class", "config"}:
        raise ValueError(f"'model' must have 'class' and 'config', got {str(description)[:80]}")
    found = registry.find_model(str(description["class"]))
    if found is None:
        found = registry.find_class(description["class"], base, custom_objects)
    model: TrainedNetwork = registry.construct(found, description["config"], custom_objects)
    seed = arguments.integer("model file", "seed", config["seed"], minimum=0)
    if not isinstance(config["dtype"], str):
        raise ValueError(f"'dtype' must be a text, got {str(config['dtype'])[:80]}")
    model.seed, model.dtype = seed, as_dtype(config["dtype"])
    part = config["part"]
    if part is not None:
        if not isinstance(part, dict) or part.keys() != {"whole_shape", "begin", "end"}:
            raise ValueError(f"'part' must have 'whole_shape', 'begin' and 'end', got {str(part)[:80]}")
        if not all(name is None or isinstance(name, str) for name in (part["begin"], part["end"])):
            raise ValueError(f"'part' must name layers, got {str(part)[:80]}")
        model = model._make_part(part["whole_shape"], part["begin"], part["end"])
    model.input_shape = None
    return model


def _restore_optimizer(
    model: TrainedNetwork, description: object, arrays: Mapping[str, Array], custom_objects: CustomObjects
) -> None:
    if not isinstance(description, dict) or description.keys() != {"class", "rule", "state"}:
        raise ValueError(f"'optimizer' must have 'class', 'rule' and 'state', got {str(description)[:80]}")
    rule = registry.build(description["rule"], IGradientDescent, custom_objects)
    numbers = description["state"]
    # Not `isinstance`: a bool is no number of a state.
    if not isinstance(numbers, dict) or not all(type(value) in (int, float) for value in numbers.values()):
        raise ValueError(f"the 'state' of a rule must hold numbers, got {str(numbers)[:80]}")
    for name, value in arrays.items():
        # Before the rule takes it: a rule checks the lengths among each other only.
        if (value.shape, value.dtype) != (model.store.values.shape, model.dtype):
            raise ValueError(f"'{name}' does not fit the model's {model.store.values.size} parameters of {model.dtype}")
    rule.load_state_dict({**numbers, **{name.removeprefix(_RULE): value for name, value in arrays.items()}})
    op_type = registry.find_class(description["class"], IOptimizer, custom_objects)
    model._adopt_rule(op_type, rule)
    for name, value in arrays.items():
        # A warning, as of weights: the model predicts by these alone.
        if problem := not_finite(_by_variable(model.store.variables, value)):
            warnings.warn(f"in the model file '{name}' of {problem}", RuntimeWarning, stacklevel=level_of_user())
            break


def _by_variable(variables: Sequence[Variable], values: Array) -> Iterator[tuple[Variable, Array]]:
    """Yield variables with their parts of a vector of numbers for all of them."""
    start = 0
    for variable in variables:
        end = start + math.prod(variable.shape)
        yield variable, values[start:end].reshape(variable.shape)
        start = end


def pack_progress(model: TrainedNetwork) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the fields and the tensors of a file. A column of the history is a tensor of (epoch, value) pairs."""
    history, states = model.fit_history(), model.callback_states.current()
    arrays: dict[str, Array] = {}
    for name in history.columns():
        pairs = [(row["epoch"], row[name]) for row in history.rows if name in row]
        arrays[_HISTORY + name] = np.array(pairs, np.float64)
    numbers: dict[str, dict[str, Any]] = {}
    for key, state in states.items():
        numbers[key] = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
        tensors = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        arrays.update((f"{_CALLBACK}{key}:{name}", value) for name, value in tensors.items())
    return {"epochs": model.epochs_trained, "fit_seed": history.seed, "callbacks": numbers}, arrays


def take_progress(model: TrainedNetwork, config: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Take fields and tensors out of a file and give them to the model; raise ValueError naming the fault."""
    model.epochs_trained = arguments.integer("model file", "epochs", config["epochs"], minimum=0)
    if config["fit_seed"] is not None:
        model.fit_history().seed = arguments.integer("model file", "fit_seed", config["fit_seed"], minimum=0)
    _take_history(model.fit_history(), arrays)
    model.callback_states = CallbackStates(_take_states(config["callbacks"], arrays))


def _take_history(history: History, arrays: dict[str, Array]) -> None:
    rows: dict[int, dict[str, float]] = {}
    columns = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_HISTORY)}
    for name, pairs in columns.items():
        if pairs.dtype != np.float64 or pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"'{name[:80]}' must hold pairs of epoch and value, got {pairs.dtype} of shape {pairs.shape}")
        for epoch, value in pairs.tolist():
            # The range first, as `int` fails for infinity and NaN.
            if not (1 <= epoch <= 2**53 and epoch == int(epoch)):
                raise ValueError(f"'{name[:80]}' must count epochs from 1, got {epoch}")
            rows.setdefault(int(epoch), {})[name.removeprefix(_HISTORY)] = value
    for epoch in sorted(rows):
        # The column of epochs has said what the key says.
        rows[epoch].pop("epoch", None)
        history.add(epoch, rows[epoch])


def _take_states(numbers: object, arrays: dict[str, Array]) -> dict[str, State]:
    if not isinstance(numbers, dict) or not all(isinstance(state, dict) for state in numbers.values()):
        raise ValueError(f"'callbacks' must hold the states of callbacks, got {str(numbers)[:80]}")
    states: dict[str, State] = {}
    for key, state in numbers.items():
        if not all(type(value) in (bool, int, float) for value in state.values()):
            raise ValueError(f"the state of the callback {key[:80]!r} must hold numbers, got {str(state)[:80]}")
        prefix = f"{_CALLBACK}{key}:"
        own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
        states[key] = {**state, **own}
    return states

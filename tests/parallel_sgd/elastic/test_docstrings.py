"""The examples of the documentation run."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import nn
from parallel_sgd.elastic import ElasticSampler, ModelState, ObjectState, decorator, model_state, object_state, run, sampler
from parallel_sgd.elastic import functions as group_functions
from rpc.elastic import hosts

NAMES = {
    "nn": nn,
    "np": np,
    "run": run,
    "ElasticSampler": ElasticSampler,
    "ModelState": ModelState,
    "ObjectState": ObjectState,
}


@pytest.mark.parametrize("module", [decorator, group_functions, model_state, object_state, sampler, hosts])
def test_examples(module: object) -> None:
    failed, tried = doctest.testmod(module, globs={**vars(module), **NAMES}, raise_on_error=False)  # type: ignore[arg-type]
    assert tried and not failed

"""The examples of the documentation run."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import nn
from parallel_sgd.elastic import ElasticSampler, ModelState, ObjectState, object_state, run, sampler, state
from parallel_sgd.elastic import group as group_functions
from rpc.elastic import hosts

NAMES = {
    "nn": nn,
    "np": np,
    "run": run,
    "ElasticSampler": ElasticSampler,
    "ModelState": ModelState,
    "ObjectState": ObjectState,
}


@pytest.mark.parametrize("module", [state, group_functions, object_state, object_state, sampler, hosts])
def test_examples(module: object) -> None:
    failed, tried = doctest.testmod(module, globs={**vars(module), **NAMES}, raise_on_error=False)  # type: ignore[arg-type]
    assert tried and not failed

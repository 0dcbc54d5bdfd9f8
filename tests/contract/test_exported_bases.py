"""Whatever the texts on extending tell to derive from can be imported from the public package."""

from __future__ import annotations

import importlib

import pytest

BASES = {
    "parallel_sgd.batch_sync": "AsynchronizedSGD ISyncType RescuingSync SyncSetting SynchronizedSGD",
    "parallel_sgd.codec": "Answering CheckingPackets Codec Partial Remembering TakingLate Tracking",
    "parallel_sgd.codec.compose": "ExchangePattern LocalRule MergeRule Neighbours Trigger",
    "parallel_sgd.codec.pipeline": "GradientStage LinearCode Memory Quantizer Sparsifier Stage",
}


@pytest.mark.parametrize(("package", "name"), [(package, name) for package, names in BASES.items() for name in names.split()])
def test_a_base_is_exported(package: str, name: str) -> None:
    module = importlib.import_module(package)
    assert name in module.__all__ and isinstance(getattr(module, name), type)

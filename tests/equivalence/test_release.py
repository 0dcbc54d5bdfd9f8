"""The release is part of what the bits of a run depend on: where results change, its number does, too."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from network import VERSION
from rpc.agent import kernel_sets
from rpc.job import PORTABLE, kernel_variables
from tests.sources import ROOT
from tests.statements import covers

RESULTS = {
    ("1.0.0", "2.4.6"): "0c46b7a6f379268218084f992220d8eb3e77eac9b77a2f9232f4af837c51ee38",
    ("1.1.0", "2.4.6"): "0c46b7a6f379268218084f992220d8eb3e77eac9b77a2f9232f4af837c51ee38",
}
"""By release and NumPy: a hash of the weights that `PROGRAM` ends with, which portable bits make the same on every x86 CPU.

Where this test fails, a program of a user gets other weights than from the release of that number. Take the change back, or
raise `network.VERSION`, add a row, and write a line in CHANGELOG.md under *Results that change*. Until a number is released
its row may follow.
"""
PROGRAM = """
import sys
import numpy as np
import nn
from nn.dataset import ArrayDataset
from nn.dataset.transforms import Shuffle
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec import Plain, TopK
from parallel_sgd.profiles import FixedBlockAssignment

# no functions of the C library, which may be another one
numbers = np.arange(140 * 12) * 7919 % 2003
samples, labels = (numbers.reshape(140, 12) / 2048).astype(np.float32), np.arange(140) % 3
data = ArrayDataset(samples[:120], labels[:120], samples[120:], labels[120:])
for codec, rule in ((Plain, ADAMOptimizer), (TopK, SGDOptimizer)):
    model = nn.model.SequentialModel(input_shape=[-1, 12])
    model.add(nn.layer.Dense(16, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    values = model.store.values
    values[:] = (np.arange(values.size) * 37 % 101 - 50) / 256
    settings = {"epoch": 2, "block_size": 8, "seed": 4, "assignment_type": FixedBlockAssignment.of(4), "bits": "portable"}
    with in_process(2) as nodes:
        result = ParallelSGD(model, data, Shuffle()).parallel(
            nodes, codec=codec, gd_type=rule, gd_params=(0.01,), directory=sys.argv[1], verbose=0, **settings
        )
    for trained in result.models.values():
        sys.stdout.buffer.write(trained.store.values.tobytes())
"""


@covers("RUN-3")
@pytest.mark.processes
@pytest.mark.skipif("Haswell" not in kernel_sets.runnable(), reason="takes a CPU with AVX2, and NumPy from a wheel")
def test_results_that_change_have_another_release(tmp_path: Path) -> None:
    known = [numpy for _, numpy in RESULTS]
    if np.__version__ not in known:
        pytest.skip(f"the results are known for NumPy {', '.join(known)}")
    environ = {**os.environ, **kernel_variables(PORTABLE), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(command, env=environ, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    assert RESULTS[VERSION, np.__version__] == hashlib.sha256(ran.stdout).hexdigest()

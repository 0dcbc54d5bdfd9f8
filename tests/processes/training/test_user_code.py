"""A user's own classes, wherever they are written: they travel with the job, and nothing of them lies on the workers."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parallel_sgd.nodes import LocalNodes

from ...statements import covers

ROOT = Path(__file__).parents[3]


def run(directory: Path, agents: LocalNodes, program: str, *, typed: bool = False) -> str:
    """Run a script (or a program that was typed in) that finds these agents in worker.json; its output."""
    (directory / "worker.json").write_text(json.dumps({"Worker": [str(address) for _, address in agents.items()]}))
    (directory / "script.py").write_text(program, "utf-8")
    finished = subprocess.run(
        [sys.executable, *(["-c", program] if typed else ["script.py"])],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PSGD_KEY_FILE": str(agents.key_file)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


CODEC_SCRIPT = """
import nn
import parallel_sgd
from nn.dataset.transforms import ImageCls
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.plain import Plain
from beside import Halved

FACTOR = {factor}


def scaled(array):
    return FACTOR * array


class Scaled(Plain):
    def __init__(self, node_id):
        super().__init__(node_id)
        self.record(f"version of factor {{FACTOR}}")

    def get_result(self):
        result = super().get_result()
        return None if result is None else scaled(result)


model = nn.model.SequentialModel(input_shape=[-1, 64])
model.add(nn.layer.Dense(10))
model.setup(nn.loss.MSELoss())
job = parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), ImageCls())


def trained(nodes, codec):
    settings = dict(epoch=1, block_size=32, gd_type=nn.gradient_descent.SGDOptimizer)
    result = job.parallel(nodes, codec=codec, **settings)
    logs = [path.read_text() for path in result.files.get(0, ()) if path.name.startswith("Fit")]
    return result.models[0].store.values.tobytes(), "".join(logs)


if __name__ == "__main__":
    nodes = parallel_sgd.parse_worker(2)
    bits, log = trained(nodes, Scaled)
    with parallel_sgd.in_process(2) as here:
        print([bits == trained(here, Scaled)[0], f"version of factor {factor}" in log])
        mixed, log = trained(nodes, {{0: Halved}})
        print([mixed == trained(here, {{0: Halved}})[0], mixed != bits, "Halved of" in log])
        print([mixed != trained(here, {{0: Halved, 1: Halved}})[0]])
"""

BESIDE = """
from parallel_sgd.codec.plain import Plain
import deeper


class Halved(Plain):
    def __init__(self, node_id):
        super().__init__(node_id)
        self.record(f"Halved of {node_id}")

    def get_result(self):
        result = super().get_result()
        return None if result is None else deeper.half(result)
"""

DEEPER = """
def half(array):
    return array / 2
"""


@pytest.mark.long
@covers("SUB-33")
def test_codecs_of_a_script_and_of_files_beside_it(agents: LocalNodes, tmp_path: Path) -> None:
    """From `__main__` (in a file or not), from a file beside it, for one variable only.

    A changed codec of the same name runs as it is now.
    """
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "deeper.py").write_text(DEEPER)
    for factor, typed in ((2.0, False), (3.0, True)):
        for line in run(tmp_path, agents, CODEC_SCRIPT.format(factor=factor), typed=typed).splitlines():
            assert all(ast.literal_eval(line)), line


PARTS = '''
import numpy as np

import nn
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer import PSGDOptimizer
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.profiles import AbsBlockAssignment


class Twice(nn.activation.Activation):
    def forward(self, inputs, out):
        np.multiply(inputs[0], 2, out=out)

    def derive(self, x, output, gradient, out):
        np.multiply(gradient, 2, out=out)


class Scale(nn.layer.Layer):
    """x * w, one w per feature."""

    def __init__(self, start=1.0, name=None):
        super().__init__(name)
        self.start = start

    def build(self, input_shape):
        self.w = self.add_variable("w", (input_shape[-1],), nn.initializer.Constant(self.start))

    def call(self, x):
        return x * self.w

    def get_config(self):
        return {"start": self.start, "name": self.given_name or None}


class HalfSquares(nn.loss.MSELoss):
    def value(self, label, output, weight=None):
        return super().value(label, output, weight) / 2

    def gradient(self, label, output, out, weight=None):
        super().gradient(label, output, out, weight)
        out /= 2


class Worst(nn.metric.Metric):
    name = "worst"

    def __init__(self):
        self.reset()

    def reset(self):
        self.value = 0.0

    def update(self, label, prediction):
        self.value = max(self.value, float(np.abs(prediction - label.reshape(prediction.shape)).max()))

    def result(self):
        return self.value


class Net(nn.model.Model):
    def __init__(self, units=3):
        super().__init__(input_shape=[-1, 2])
        self.units = units
        self.hidden = nn.layer.Dense(units, activation=Twice())
        self.scale = Scale(0.5)
        self.out = nn.layer.Dense(1)

    def call(self, x):
        return self.out(self.scale(self.hidden(x))) + x @ x_weights()

    def get_config(self):
        return {"units": self.units}


def x_weights():
    return nn.Variable(shape=[2, 1], initializer=nn.initializer.Zeros(), name="skip", trainable=False)


class Waves(AbsDataset):
    def __init__(self, samples=64):
        self.samples = samples

    def load(self, download=True):
        x = nn.random.keyed(1, "waves").normal(size=(2 * self.samples, 2)).astype(np.float32)
        y = np.sin(x).sum(axis=1, keepdims=True).astype(np.float32)
        return x[: self.samples], y[: self.samples], x[self.samples :], y[self.samples :]

    def get_config(self):
        return {"samples": self.samples}


class Noise(AbsTransformer):
    def __init__(self, scale=0.1):
        self.scale = scale

    def __call__(self, train_x, train_y, test_x, test_y, seed=0):
        noise = nn.random.keyed(seed, "noise").normal(size=train_x.shape).astype(np.float32)
        return train_x + np.float32(self.scale) * noise, train_y, test_x, test_y

    def get_config(self):
        return {"scale": self.scale}


class Signs(IGradientDescent):
    def increment(self, value, gradient, out, *slots):
        np.sign(gradient, out=out)
        out *= -self.learn_rate


class Counting(PSGDOptimizer):
    def finish_batch(self):
        yield from super().finish_batch()


class Patient(SynchronizedSGD):
    pass


class Uneven(AbsBlockAssignment):
    def deal(self, node_count, redundancy):
        return [[0, 1], *([node + 1] for node in range(1, node_count))]
'''

PARTS_SCRIPT = """
import parallel_sgd
from nn.dataset.transforms import Shuffle
from parts import *

model = Net(4)
model.setup(HalfSquares(), Worst())
job = parallel_sgd.ParallelSGD(model, Waves(96), Shuffle().add(Noise(0.2)))
settings = dict(
    epoch=2, block_size=8, gd_type=Signs, gd_params=(0.01,), op_type=Counting, sync_type=Patient, assignment_type=Uneven, seed=3
)
result = job.parallel(parallel_sgd.parse_worker(3), **settings)
with parallel_sgd.in_process(3) as nodes:
    same = job.parallel(nodes, **settings)
print(dict(result) == dict(same))
print(sorted(result) == ["Loss", "worst"])
print(len({m.store.values.tobytes() for r in (result, same) for m in r.models.values()}) == 1)
print(model.store.values.tobytes() != result.models[0].store.values.tobytes())
print(all(type(m) is Net and m.units == 4 for m in result.models.values()))
"""


def test_every_part_of_a_job_may_be_the_users_own(agents: LocalNodes, tmp_path: Path) -> None:
    """Model, layer, activation, loss, metric, data set, transform, rule, optimizer, sync type and assignment travel."""
    (tmp_path / "parts.py").write_text(PARTS)
    assert run(tmp_path, agents, PARTS_SCRIPT).split() == ["True"] * 5


MISSING_SCRIPT = """
import nn, parallel_sgd
from parallel_sgd.codec.plain import Plain
from tests.processes.training.jobs import line_job


class Importing(Plain):
    def update_blocks(self, block_weight):
        import beside
        return super().update_blocks(block_weight)


try:
    line_job().parallel(parallel_sgd.parse_worker(2), codec=Importing, epoch=1, block_size=4)
except ValueError as error:
    print(error)
"""


@pytest.mark.long
def test_an_import_inside_a_function_cannot_be_followed(agents: LocalNodes, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("")
    assert "update_blocks imports beside inside its body" in run(tmp_path, agents, MISSING_SCRIPT)


CELL = """
import numpy as np
from parallel_sgd.codec import Codec, GlobalSettings, netEncapsulation

class Own(Codec):
    def __init__(self, node_id):
        super().__init__(node_id)
        self.got = []

    def update_blocks(self, block):
        others = GlobalSettings.get_default().get_adversary(block.block_id)
        self.got.append(block.content)
        return netEncapsulation(others, (block.content.copy(),))

    def receive_blocks(self, content):
        return self.added(content[0])

    def added(self, array):
        return array.foo  # a bug of the author

class Singular(Own):
    def receive_blocks(self, content):
        np.linalg.inv(np.zeros((2, 2)))  # in the second class
"""
BUG_SCRIPT = f"""
import linecache
import nn
import parallel_sgd

CELL = {CELL!r}
NAME = "<ipython-input-5-0a1b2c3d4e5f>"
linecache.cache[NAME] = (len(CELL), None, CELL.splitlines(True), NAME)  # as IPython tells Python of a cell
exec(compile(CELL, NAME, "exec"))

model = nn.model.SequentialModel(input_shape=[-1, 64])
model.add(nn.layer.Dense(10))
model.setup(nn.loss.Cross_Entropy_With_Softmax())
job = parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls())
for codec in (Own, Singular):
    try:
        job.parallel(parallel_sgd.parse_worker(2), codec=codec, epoch=1, block_size=32)
    except parallel_sgd.JobFailed as failed:
        print(failed)
        print(*(detail for _, detail in failed.failures.values()), sep="\\n")
"""


def test_a_bug_of_a_codec_is_told_with_its_line_and_no_peer_is_blamed(tmp_path: Path, agents: LocalNodes) -> None:
    """Class, method, line and packet, with the source line of a cell that is in no file; what NumPy raised by its own name."""
    told = run(tmp_path, agents, BUG_SCRIPT)
    packet = r" for a packet of node [01], variable \d \(dense_1/\w+\), epoch 1, batch 1"
    place = r"\(<ipython-input-5-0a1b2c3d4e5f>:19, in added\)" + packet
    assert re.search(
        rf"Own\.receive_blocks raised AttributeError: 'numpy\.ndarray' object has no attribute 'foo' {place}", told
    ), told
    assert "return array.foo  # a bug of the author" in told and "sent what cannot be used" not in told
    assert re.search(r"Singular\.receive_blocks raised numpy\.linalg\.LinAlgError: Singular matrix \(<ipython-input-5-", told)
    assert "np.linalg.inv(np.zeros((2, 2)))  # in the second class" in told

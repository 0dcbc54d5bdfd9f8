"""The programs of the original system's README run as written, import lines included."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from nn.dataset.idx import read_idx
from tests.nn.dataset.idx_files import idx

from .programs import environment, python
from .statements import covers

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[1]
SHARED_DATA = Path(os.environ.get("PSGD_SHARED_DATA", ROOT.parent / "shared" / "data"))

TUTORIAL = """
import parallel_sgd
import nn
import nn.dataset.transforms as transforms

from parallel_sgd.codec.plain import Plain

model = nn.model.SequentialModel(input_shape=[-1, 784])
model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))

model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())

data = nn.dataset.MNIST()  # 使用MNIST数据集
trans = transforms.Shuffle().add(transforms.ImageCls())  # 先对数据集做Shuffle操作，再对数据集进行像素分类处理

job = parallel_sgd.ParallelSGD(model, data, trans)
nodes = parallel_sgd.parse_worker(worker_cnt=1)

# 两轮训练后，大约可以给出 'Loss': 0.262, 'accuracy': 0.954 的结果
print(job.parallel(nodes, codec=Plain, epoch=2))
"""

SAVE_AND_LOAD = """
import nn

model.save("dnn.model")  # 使用save保存
nn.model.Model.load("dnn.model")  # 使用load加载
"""

RECLAIMER = """
import parallel_sgd
import rpc
import network

nodes = parallel_sgd.parse_worker(worker_cnt=9, ps=True)
req = network.Request()

with req.request(nodes) as com:
  rpc.Reclaimer(com).require_client_log()
"""

PARAMETER_SECTION = """
from typing import Hashable, SupportsFloat, Type, Union, Dict, Tuple

from network import NodeAssignment
from nn.gradient_descent import ADAMOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.parallel_sgd import PSGDOptimizer, IOptimizer
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.batch_sync.sync.interface import ISyncType
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.profiles.blockassignment.abstract import AbsBlockAssignment


def parallel(self,
             nodes: NodeAssignment,
             redundancy: int = 1,
             block_size: int = 64,
             epoch: int = 10,
             assignment_type: Type[AbsBlockAssignment] = IIDBlockAssignment,
             sync_type: Type[ISyncType] = SynchronizedSGD,
             op_type: Type[IOptimizer] = PSGDOptimizer,
             gd_type: Type[IGradientDescent] = ADAMOptimizer,
             codec: Union[Dict[int, Type[Codec]], Type[Codec]] = None,
             gd_params: Tuple[object] = (),
             ps_codec: Union[Dict[int, Type[Codec]], Type[Codec], None] = None,
             network_bandwidth: int = 1048576,
             mission_title: str = "P-SGD",
             ssgd_timeout_limit: int = 10000,
             codec_extra_parameters: Dict[Hashable, SupportsFloat] = None) -> Dict[str, SupportsFloat]:
    pass
"""


@contextmanager
def worker(directory: Path, *options: str) -> Iterator[int]:
    """A `python worker.py` of its own; yields its port."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "worker.py"), "--port", "0", *options],
        cwd=directory,
        env=environment(directory, PSGD_DATA=str(directory / "data")),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        yield _port(process.stderr)
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) == 0, rest


def _port(lines: IO[str]) -> int:
    said = ""
    for line in lines:  # until it has started or ended; the time limit of the test covers the rest
        said += line
        if found := re.fullmatch(r"INFO Worker-\S+@\d\d:\d\d:\d\d: Worker started on port: (\d+)\n", line):
            assert re.search(r"INFO Worker-\S+@\d\d:\d\d:\d\d: Worker version: \d+\.\d+\S*\.\n", said)
            return int(found[1])
    raise AssertionError(f"The worker did not start:\n{said}")


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(program, "utf-8")
    return python(directory, "program.py", PSGD_DATA=str(directory / "data"))


def write_mnist(folder: Path) -> None:
    """The four files of MNIST, from the 10,000 images that are here: the first 8,500 to train on, the last 1,500 to test on."""
    source = SHARED_DATA / "mnist"
    if not (source / "t10k-images-idx3-ubyte.gz").is_file():
        pytest.skip(f"there is no MNIST in {source}; PSGD_SHARED_DATA names the folder that holds mnist/")
    folder.mkdir()
    for kind in ("images-idx3", "labels-idx1"):
        array = read_idx(source / f"t10k-{kind}-ubyte.gz")
        (folder / f"train-{kind}-ubyte").write_bytes(idx(array[:8500]))
        (folder / f"t10k-{kind}-ubyte").write_bytes(idx(array[8500:]))


@covers("SUB-1", "SUB-2", "SUB-43")
def test_the_tutorial_against_a_worker_of_its_own(tmp_path: Path) -> None:
    """`python worker.py`, worker.json, the program of the README; then its save-and-load lines.

    It asks for 2 epochs of 60,000 images; 14 epochs of the 8,500 that are here are as many batches.
    """
    write_mnist(tmp_path / "data")
    with worker(tmp_path) as port:
        (tmp_path / "worker.json").write_text(json.dumps({"Worker": [f"127.0.0.1:{port}"]}))
        finished = run(tmp_path, TUTORIAL.replace("epoch=2", "epoch=14") + SAVE_AND_LOAD)
    assert finished.returncode == 0, finished.stderr
    result = ast.literal_eval(finished.stdout)
    assert list(result) == ["Loss", "accuracy"]
    assert result["accuracy"] > 0.93
    line = r"INFO P-SGD Submit@\d\d:\d\d:\d\d: "
    for text in (r"Start job\.", r"Node\(0\) is ready, \{0\} is ready\.", r"All the tasks are done\."):
        assert re.search(f"^{line}{text}$", finished.stderr, re.MULTILINE)
    assert "--> ./runs/P-SGD-1/Node-0-Retrieve/MODEL-P-SGD-N(0).model" in finished.stderr
    assert (tmp_path / "Node-0-Retrieve" / "EV-P-SGD-N(0).csv").read_text().count("\n") == 1 + 14
    assert (tmp_path / "dnn.model").is_file()


SMALL_JOB = """
import parallel_sgd, nn
from nn.dataset.transforms import ImageCls
model = nn.model.SequentialModel(input_shape=[-1, 64])
model.add(nn.layer.Dense(10))
model.setup(nn.loss.MSELoss())
job = parallel_sgd.ParallelSGD(model, nn.dataset.Digits(), ImageCls())
job.parallel(parallel_sgd.parse_worker(worker_cnt=9), epoch=1, block_size=8, mission_title="Nine")
"""


@pytest.mark.long
@covers("SUB-15")
def test_the_reclaimer_fetches_what_the_newest_job_left(tmp_path: Path) -> None:
    """Nine workers and a parameter server, from another process; the server has served no job yet."""
    from rpc.launch.local import local_agents

    with local_agents(10) as agents:
        names = [str(address) for address in agents.addresses]
        (tmp_path / "worker.json").write_text(json.dumps({"PS": names[-1], "Worker": names[:-1]}))
        key = f"import os; os.environ['PSGD_KEY_FILE'] = {str(agents.key_file)!r}\n"
        finished = run(tmp_path, key + SMALL_JOB)
        assert finished.returncode == 0, finished.stderr
        files = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.glob("Node-*-Retrieve/*-Nine-*")}
        assert len(files) == 9 * 11, "TR, EV, TI, AC, BA, BY, CO, WH, ID, the ledger and the model of every worker"
        for path in files:
            (tmp_path / path).unlink()
        finished = run(tmp_path, key + RECLAIMER)
        assert finished.returncode == 0, finished.stderr
        assert {path: (tmp_path / path).read_bytes() for path in files} == files
        assert all(list((tmp_path / f"Node-{node}-Retrieve").glob(f"Fit-{node} *.log")) for node in range(9))


def test_the_imports_and_the_signature_of_the_parameter_section() -> None:
    import inspect

    import parallel_sgd

    names: dict[str, object] = {}
    exec(PARAMETER_SECTION, names)
    written = inspect.signature(names["parallel"]).parameters  # type: ignore[arg-type]
    ours = list(inspect.signature(parallel_sgd.ParallelSGD.parallel).parameters.values())
    for expected, actual in zip(written.values(), ours, strict=False):
        assert (actual.name, actual.default) == (expected.name, expected.default)
    assert all(more.kind is more.KEYWORD_ONLY for more in ours[len(written) :])


def test_what_is_written_here_is_what_the_readme_says() -> None:
    """The programs above are those of the original README, where it is at hand."""
    readme = ROOT.parent / "shared" / "seeds" / "parallel-sgd-readme.zh.md"
    if not readme.is_file():
        pytest.skip("the original README is not here")
    text = readme.read_text("utf-8")
    for program in (TUTORIAL, SAVE_AND_LOAD, RECLAIMER, PARAMETER_SECTION.rpartition("    pass")[0]):
        assert program.strip() in text

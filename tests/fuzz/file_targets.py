"""Targets that read files: models, checkpoints, results, keys, records of jobs, what a failed job leaves, data sets."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np

import nn
from network.errors import ProtocolError
from network.key_files import load_key_file
from network.keys import Key, KeyFileError, Keyring, format_keyring
from network.nodes import Address
from network.wire import Kind, pack
from nn.dataset.idx import read_idx
from nn.dataset.npz import read_arrays
from nn.dataset.plan import Category, Date, Label, LeftOut, Number, Plan, Spelling
from nn.model import Model
from nn.tensor_files import ModelFileError, dump, parse
from parallel_sgd.checkpoint import Header, Position, Progress, Snapshot
from parallel_sgd.checkpoint.locate import FOLDER
from parallel_sgd.checkpoint.snapshot import FORMAT, CheckpointError
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.driver.manifest import AttemptState, JobManifest
from parallel_sgd.elastic.job import StateFile
from parallel_sgd.nodes import parse_worker
from parallel_sgd.post_mortem.case import Case
from rpc import shipping
from rpc.agent.files import kept_files
from rpc.agent.registration import Registration, registrations
from rpc.agent.standby import LEASE, read_promise
from rpc.agent.store import JobRecord
from rpc.executable import ReplyPackage
from rpc.lease.lease import Promise
from rpc.liveness.recorder import Reader, Recorder, make_memory
from rpc.submit import Diagnostics
from rpc.submit.diagnostics import NodeDiagnostics
from rpc.submit.run_folder import Run
from rpc.support.files import read_result
from tests.network.wires import travelling
from tests.nn.model.models import classifier
from tests.nn.onnx import files as onnx

from .mutate import frames_altered, json_altered, tensors_altered
from .target import MIB, Outcome, Target, scratch
from .wire_targets import CLASSES, values

# ---- tensor files


@cache
def _tensors() -> tuple[bytes, bytes]:
    """Ours, with the hash of its content, and one of another program, without."""
    arrays = {"a/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(3), "mask": np.array([True, False])}
    own = dump(arrays, {"format": "psgd.model/1", "config": '{"layers":[]}'})
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    text = json.dumps({"__metadata__": {"format": "np"}, "w": entry}).encode()
    return own, len(text).to_bytes(8, "little") + text + bytes(8)


def _sealed_tensors(data: bytes) -> Outcome:
    """Who takes the hash away has to take the name of our format away, too, and has a file of some other program then."""
    _, metadata = parse(data)
    return "accepted" if metadata.get("format", "").startswith("psgd.") and data != _tensors()[0] else "read"


def _parse(data: bytes) -> Outcome:
    arrays, _ = parse(data)
    assert sum(array.nbytes for array in arrays.values()) <= len(data)
    return "read"


@cache
def _models() -> tuple[bytes, ...]:
    trained = classifier(dropout=0.5, width=4)
    trained.fit(np.ones((4, 8)), np.array([0, 1, 2, 0]), epoch=1, verbose=0)
    layers = [nn.layer.Conv2D(2, 2), nn.layer.MaxPool(), nn.layer.Flatten(), nn.layer.Dense(2)]
    images = nn.model.SequentialModel([-1, 5, 5, 1], layers)
    images.setup(nn.loss.MSELoss())
    images.compile(nn.gradient_descent.SGDOptimizer())
    plain = trained.to_bytes()
    trained.inputs = Plan.from_dict(_plan())
    return plain, images.to_bytes(), trained.to_bytes()


@cache
def _onnx() -> tuple[bytes, ...]:
    """Files with layers, shapes that are computed, a choice and numbers in lists."""
    x = nn.Input([-1, 6, 6, 2])
    y = nn.layer.Conv2D(4, 3, activation="relu")(nn.layer.BatchNorm()(x))
    y = nn.layer.GroupNorm(2)(y).reshape(-1, 4, 16)
    y = nn.layer.LSTM(3)(nn.layer.MultiHeadAttention(2, 3)(y)) + nn.layer.Dense(3)(y[:, 0])
    shape = [onnx.node("Shape", "x", "s"), onnx.node("Expand", "row s", "w"), onnx.node("Add", "x w", "y")]
    return nn.onnx.to_bytes(Model(x, y)), onnx.file_of(*shape, tensors={"row": np.float32([[1, 2, 3, 4]])})


def _of_onnx(data: bytes) -> Outcome:
    nn.onnx.from_bytes(data)
    return "read"


def _model(data: bytes) -> Outcome:
    Model.from_bytes(data)
    return "read"


@cache
def snapshots() -> tuple[bytes, ...]:
    """A checkpoint of a worker."""
    progress = Progress(Position(1, 3), 7, 1.5, {"Loss": 0.5})
    header = Header(job="a-job", attempt=0, node=0, title="P-SGD", seed=3, progress=progress, personal=False, blocks=[[0], [1]])
    arrays = {"value/dense_1/kernel": np.ones((2, 3), np.float32), "codec/0.up": np.arange(5, dtype=np.float32)}
    numbers = {"optimizer/rule:step": 11, "codec/1.name": "ä", "codec/1.none": None, "codec/1.on": True}
    return (b"".join(Snapshot(header, arrays, numbers).pieces()),)


def _snapshot(data: bytes) -> Outcome:
    Snapshot.read(data)
    return "read"


# ---- messages in files


def _results() -> list[bytes]:
    return [travelling(pack(Kind.MESSAGE, (), value, False, CLASSES)) for value in values()]


def _result(data: bytes) -> Outcome:
    read_result(scratch("result.psgd", data), CLASSES)
    return "read"


_MAGIC = b"PSGD elastic state 1\n"


def _states() -> list[bytes]:
    messages = [travelling(pack(Kind.MESSAGE, (), value)) for value in values()[:7]]
    return [_MAGIC + hashlib.sha256(one).digest() + one for one in messages]


def _state_altered(rng: random.Random, data: bytes) -> bytes:
    made = frames_altered(rng, data[len(_MAGIC) + 32 :])
    return _MAGIC + hashlib.sha256(made).digest() + made


def _state(data: bytes) -> Outcome:
    StateFile(scratch("elastic.state", data))
    return "read"


def _manifests() -> list[bytes]:
    bundle = shipping.pack({"x": ReplyPackage([1])})
    return [JobManifest("a-job", "restart", 1, False, [[0], [1]], bundle, bundle, b"recipe", {"options": {}}).to_bytes()]


def _manifest(data: bytes) -> Outcome:
    JobManifest.read(scratch("manifest", data))
    return "read"


# ---- keys


def _key_files() -> list[bytes]:
    keys = [Key(bytes([number]) * 32) for number in (1, 2)]
    return [format_keyring(Keyring(tuple(keys[:count]))).encode() for count in (1, 2)]


def _key_file(data: bytes) -> Outcome:
    load_key_file(scratch("key", data))
    return "read" if data.split() in [whole.split() for whole in _key_files()] else "accepted"


# ---- JSON of agents and submitters


def _json_target(name: str, content: Any, take: Callable[[bytes], Any], *refusals: type[Exception]) -> Target:
    def read(data: bytes) -> Outcome:
        take(data)
        return "read"

    return Target(name, lambda: [json.dumps(content).encode()], read, refusals, (json_altered,), weight=0.25)


def _job(data: bytes) -> object:
    return JobRecord.read(scratch(f"{RECORD.name}/job.json", data))


def _nodes(data: bytes) -> object:
    return parse_worker(2, True, scratch("worker.json", data))


def _lease(data: bytes) -> object:
    return read_promise(scratch(f"lease/{LEASE}", data).parent)


def _registrations(data: bytes) -> object:
    return [found.line for found in registrations(scratch("agents/mpi-a-run-0.agent.json", data).parent)]


def _run(data: bytes) -> object:
    return Run.read(scratch("a-run/job.json", data).parent)


def _attempt_state(data: bytes) -> object:
    return AttemptState.from_json(data.decode()).assignment()


REGISTRATION = Registration("mpi", "a-run", 0, 2, "127.0.0.1:15387", 1, "host", 1.5)
RECORD = JobRecord("a-job", 0, "P-SGD", "done", started=1.0, files=["TR-P-SGD-N(0).csv"], nodes=[0, 1])
JSON = (
    _json_target("records of jobs", asdict(RECORD), _job, OSError, ValueError),
    _json_target("leases", asdict(Promise(3, "Node(0)/0123456789abcdef", 1, 2, True, "{}")), _lease),
    _json_target("registrations of agents", asdict(REGISTRATION), _registrations),
    _json_target("folders of runs", {"job": "a-job", "title": "P-SGD", "began": 5, "about": {}}, _run),
    _json_target(
        "states of attempts",
        {"attempt": 1, "nodes": {"0": "127.0.0.1:1", "-2": "[::1]:2"}, "recovery": {"restarts": 1, "seen": [[[0, 1, 2], 3]]}},
        _attempt_state,
        ValueError,
        TypeError,
    ),
    _json_target(
        "node files", {"PS": "127.0.0.1", "Worker": ["127.0.0.1:1", "[::1]:2"]}, _nodes, ValueError
    ),
)  # fmt: skip


# ---- what a failed job leaves

_CASE = ("record.json", "configuration.json", "events.jsonl", "kept.json")


def _cases() -> list[bytes]:
    verdict = {"job": "a-job", "node": 0, "kind": "stuck", "epoch": 1, "batch": 2, "log": ["x"], "attempt": 0, "signal": 9}
    lines = [{"time": 5.5, "event": "verdict", **verdict}, {"time": 6.0, "event": "state", "state": "failed"}]
    about = {"format": FORMAT, "snapshot": json.dumps({"header": {"attempt": 1, "progress": {"evaluation": {"Loss": 1.0}}}})}
    kept = {
        "folder": FOLDER,
        "name": file_name(Position(1, 0)),
        "size": 5,
        "modified": 6.5,
        "whole": True,
        "why": "",
        "about": about,
    }
    texts = (json.dumps(asdict(RECORD)), "{}", "\n".join(map(json.dumps, lines)), json.dumps([kept]))
    return ["\0".join(texts).encode()]


def _case_altered(rng: random.Random, data: bytes) -> bytes:
    texts = data.split(b"\0")
    at = rng.randrange(len(texts))
    lines = texts[at].split(b"\n")
    line = rng.randrange(len(lines))
    lines[line] = json_altered(rng, lines[line])
    texts[at] = b"\n".join(lines)
    return b"\0".join(texts)


def _case(data: bytes) -> Outcome:
    """The files of one node, with a zero between them."""
    files = [scratch(f"case/{name}", text) for name, text in zip(_CASE, data.split(b"\0"), strict=False)]
    case = Case.read("a-job", Diagnostics([NodeDiagnostics(0, Address.parse("127.0.0.1:1"), files)]))
    assert all(isinstance(event.event, str) for event in case.timeline)
    _ = case.title, case.verdicts, [state.describe() for node in case.nodes for state in node.states]
    return "read"


def _kept(data: bytes) -> Outcome:
    folder = scratch("job/out/a.ckpt", data).parent.parent
    steps = kept_files(folder, "none")
    while True:
        try:
            next(steps)
        except StopIteration:
            return "read"


def _signals() -> list[bytes]:
    descriptor = make_memory()
    recorder = Recorder(os.dup(descriptor), lambda: 5.0)
    for batch in range(30):
        recorder.note(2, 0, batch)
    recorder.begins(3)
    data = os.pread(descriptor, 1 << 20, 0)
    recorder.close()
    os.close(descriptor)
    return [data, data[:400]]


@cache
def _memory() -> int:
    return os.memfd_create("fuzz")


def _signal(data: bytes) -> Outcome:
    """What a job process writes into the memory from which its agent sees how it is."""
    os.ftruncate(_memory(), 0)
    os.pwrite(_memory(), data, 0)
    reader = Reader(_memory())
    reader.read(6.0), reader.signs(6.0), reader.work(), reader.links(), reader.stack()
    return "read"


# ---- data sets


def _npz() -> list[bytes]:
    made = []
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, x=np.arange(12, dtype=np.float32).reshape(4, 3), y=np.arange(4))
        made.append(buffer.getvalue())
    return made


def _npz_altered(rng: random.Random, data: bytes) -> bytes:
    """Another array in an archive whose sums are right."""
    buffer, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(6.0))
    text = array.getvalue()
    shape = rng.choice((b"(6,)", b"(6666666666,)", b"(2, 3)", b"(-6,)", b"(0, 99)", b"()", b"(3,) "))
    text = text.replace(b"(6,)", shape).replace(b"<f8", rng.choice((b"<f8", b"|O", b"<U9", b">f2", b"<m8", b"|V8", b"<f16")))
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))) as archive:
        archive.writestr("x.npy", bytes(text[: rng.choice((len(text), rng.randrange(len(text))))]))
    return buffer.getvalue()


def _arrays(data: bytes) -> Outcome:
    read_arrays(scratch("data.npz", data), ("x",))
    return "read"


def _idx() -> list[bytes]:
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])
    return [labels, bytes([0, 0, 0x0D, 2, 0, 0, 0, 2, 0, 0, 0, 1]) + bytes(8)]


def _images(data: bytes) -> Outcome:
    read_idx(scratch("labels", data))
    return "read"


@cache
def _tables() -> tuple[bytes, ...]:
    rows = ["Bern,50,2001-05-01,3,1.5,u", '"Ch,ur",60,2001-05-02T10:00,NA,1e3,v', "Genf,70,1999-12-31,5,-0.25,u"] * 2
    text = "\n".join(["city,area,built,rooms,share,y", *rows]) + "\n"
    return text.encode(), gzip.compress(text.encode(), mtime=0)


def _table(data: bytes) -> Outcome:
    path = scratch(f"table.csv{'.gz' if data[:2] == bytes([31, 139]) else ''}", data)
    read = nn.dataset.CSVDataset(path, "y", missing="fill", index=None)
    samples, labels, *_ = read.load()
    assert len(samples) == len(labels)
    assert np.isfinite(samples).all()
    assert Plan.from_json(read.plan.to_json()) == read.plan
    return "read"


_ROW = {"city": "Bern", "area": "50", "built": "01.05.2001", "rooms": None, "share": 1.5, "y": "u"}


def _plan() -> dict[str, Any]:
    columns = (
        Category("city", categories=("Bern", "Chur")),
        Number("area", low=50.0, high=70.0, fill=60.0, offset=10.0),
        Date("built", form="%d.%m.%Y"),
        Number("rooms", coerce=True, fill=3.0),
        LeftOut("share", note="by hand"),
    )
    labels = (Label("y", classes=("u", "v"), dtype="int64"),)
    spelling = Spelling(",", ".", ("-",))
    steps = (("Normalize", {"mean": [0.0] * 5, "std": [1.0] * 5}), ("Windows", {"steps": 1, "horizon": 1, "past": False}))
    return Plan(columns, labels, "fill", spelling=spelling, steps=steps, rows={"train_x": "ab"}).to_dict()


def _planned(data: bytes) -> None:
    """A plan that is read shows itself, and takes rows or refuses them."""
    plan = Plan.from_json(data.decode())
    assert Plan.from_json(plan.to_json()) == plan
    assert len(repr(plan)) <= 3 * len(plan._repr_html_()) + 1000
    for use in (plan.apply, plan.labels_of, plan.labelled):
        for count in (1, 20):
            try:
                use([_ROW] * count)
            except ValueError as error:
                assert str(error)


FILES = (
    Target("model files, their hash as it was", lambda: _tensors()[:1], _sealed_tensors, (ModelFileError,), weight=3.0),
    Target("tensor files, hashed anew or without", _tensors, _parse, (ModelFileError,), (tensors_altered,), weight=3.0),
    Target("models", _models, _model, (ModelFileError,), (partial(tensors_altered, inner="config"),), weight=0.3),
    Target("ONNX files", _onnx, _of_onnx, (ModelFileError,), budget=256 * MIB, weight=0.3),
    Target("checkpoints", snapshots, _snapshot, (CheckpointError,), (partial(tensors_altered, inner="snapshot"),)),
    Target("results of executors", _results, _result, (ProtocolError,), (frames_altered,), weight=0.5),
    Target("states of elastic jobs", _states, _state, (ValueError,), (_state_altered,), weight=0.25),
    Target("manifests for standby drivers", _manifests, _manifest, (ProtocolError,), (frames_altered,), weight=0.25),
    Target("key files", _key_files, _key_file, (KeyFileError,), budget=MIB, weight=0.25),
    *JSON,
    Target("records for a post-mortem", _cases, _case, (), (_case_altered,), weight=0.25),
    Target("files that a job has kept", lambda: [*snapshots(), *_tensors()], _kept, (), (tensors_altered,), weight=0.25),
    Target("signals of a job process", _signals, _signal, (), budget=4 * MIB, weight=0.5),
    Target("npz data sets", _npz, _arrays, (ValueError,), (_npz_altered,), weight=0.25),
    _json_target("plans of columns", _plan(), _planned, ValueError),
    Target("CSV data sets", _tables, _table, (ValueError,), weight=0.25, budget=64 * MIB),
    Target("IDX data sets", _idx, _images, (ValueError, OSError), weight=0.3),
)  # fmt: skip

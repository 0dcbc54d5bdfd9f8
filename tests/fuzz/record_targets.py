"""Targets that read the folder of a run: outcome, record, manifest, job file, tables, headers of models and checkpoints."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nn
from nn.dataset import SimData
from nn.dataset.transforms import Shuffle
from nn.model import Model
from nn.tensor_files import ModelFileError, parse, read_opened, seal
from parallel_sgd import in_process
from parallel_sgd.checkpoint.locate import FOLDER
from parallel_sgd.checkpoint.snapshot import CheckpointError
from parallel_sgd.checkpoint.store import read_checkpoint
from parallel_sgd.commands.options import make_dataset, make_transform
from parallel_sgd.engine.accounts import BATCH_COLUMNS
from parallel_sgd.engine.progress import COLUMNS
from parallel_sgd.options.job_options import JobOptions, options
from parallel_sgd.options.make_spec import make_spec
from parallel_sgd.options.names import CodeRefused, guarded
from parallel_sgd.record.door import Door, RecordError
from parallel_sgd.record.files import JOB_FILE
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.job_record import MODEL_FILE, job_text
from parallel_sgd.record.ledger import Grid, collect
from parallel_sgd.record.outcome import read_outcome
from parallel_sgd.record.plain import NoText, toml_of
from parallel_sgd.record.report import _ACCOUNT_COLUMNS, TRAFFIC_COLUMNS
from parallel_sgd.record.run import MANIFEST, RunManifest
from parallel_sgd.record.tables import read_hashes, read_table
from parallel_sgd.record.weight_hashes import HASH_COLUMNS, chain_of
from parallel_sgd.run_page.data import page_data
from parallel_sgd.run_page.records import RunRecords, read_run
from parallel_sgd.run_page.story import events
from parallel_sgd.run_page.tables import ledger
from parallel_sgd.run_page.timeline import trace
from rpc.support.logs import SUBMIT_LOGGER

from .file_targets import snapshots
from .mutate import TEXTS, bytes_altered, json_altered, tensors_altered, tree_altered
from .target import MIB, Outcome, Target, scratch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NODE = "Node-0-Retrieve"
logging.getLogger(SUBMIT_LOGGER).addHandler(logging.NullHandler())  # what is left out is told a thousand times
TABLES = ("TR", "EV", "TI", "AC", "BA", "BY", "CO", "WH", "LEDGER")


_JOB = "20261120-173000-9f86d081"
_CAUSE: dict[str, Any] = {
    **dict.fromkeys(("kind", "host", "phase", "detail", "reason"), "crashed"),
    **dict.fromkeys(("node", "pid", "attempt", "epoch", "batch", "seconds", "exit_code", "signal", "rank"), 1),
}
_FAILED: dict[str, Any] = {"message": "x", "verdicts": ["y"], "causes": [_CAUSE]}
_OUTCOME: dict[str, Any] = {
    "format": 1,
    "state": "done",
    "figures": {"Loss": 0.5, "accuracy": 1.0},
    "settings": {"data": "Digits", "epoch": "2", "on_failure": "None"},
    "environment": {"numpy": "2.0"},
    "model": {"name": "SequentialModel", "summary": "Dense", "svg": "<svg></svg>"},
    "problems": [],
    "failures": [],
    "incidents": [],
    "fault": "",
    "ended": 1.7e9,
}
_ENDS: dict[str, Any] = {"failures": [[1, "failed", "a\nb"]], "notes": ["z"], "reason": "r", "state": "failed"}
_INCIDENTS = [{"time": 5.5, "attempt": 0, **_FAILED}]
_RUN = {"job": _JOB, "title": "P-SGD", "began": 1_700_000_000_000_000_000, "about": {"nodes": "in process", "work": ["a"]}}
_HASH = "0123456789abcdef" * 4
_HEADS = {
    "TR": ["Time,Epochs,Batches,in,Total,Loss,accuracy", "0.5,1,1,2,1,0.7,0.5", "0.75,1,2,2,2,0.6,0.75", "1.0,2,1,2,3,0.5,1.0"],
    "EV": ["Loss,accuracy,Epoch", "0.6,0.5,1", "0.5,0.75,2"],
    "TI": ["Epochs,Total,Compute,Encode,Send,Wait,Merge", "1,0.5,0.25,0.125,0.0,0.0,0.125", "2,0.5,0.25,0.125,0.0,0.0,0.125"],
    "AC": [",".join(_ACCOUNT_COLUMNS), "Plain,0,a/b,1,sent,tcp,4,64,80,16", "Plain,0,a/kernel,-2,received,unix,4,64,80,16"],
    "BA": [",".join(BATCH_COLUMNS), f"5.5,1,1{',0.01' * 10},1", f"5.75,1,2{',0.02' * 10},-2", f"6.0,2,1{',0.01' * 10},"],
    "BY": [",".join(TRAFFIC_COLUMNS), "Plain,1,1,4,64,80,4,64,80", "\"a,b\",1,2,0,0,0,4,64,80", "Plain,2,1,4,64,80,0,0,0"],
    "CO": ["Codec,Variable,Name,Encode,Merge", "Plain,0,dense/kernel,0.5,0.25", 'TopK,1,"a,b",0.0,0.0'],
    "WH": [",".join(HASH_COLUMNS), f"1,dense/kernel,{_HASH}", f"1,dense/bias,{_HASH}", f"2,dense/kernel,{_HASH}"],
    "LEDGER": [",".join(COLUMNS), "1,1,0,0,1,1", "1,1,1,1,1,1", "1,2,0,0,1,1", "1,2,1,1,1,0", "2,1,0,-2,2,1"],
}  # fmt: skip


@cache
def _start() -> bytes:
    """The model that the run begins with."""
    model = nn.model.SequentialModel(input_shape=[-1, 4], seed=1)
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model.to_bytes()


@cache
def _job_files() -> tuple[bytes, ...]:
    """One of a plain job, and one with what else a file may say."""
    callbacks = [nn.callback.EarlyStopping("val_accuracy", patience=9), nn.callback.CSVLogger("log.csv")]
    data = SimData(kind="classification", samples=40, features=4, classes=3, seed=1)
    with in_process(2) as nodes:
        options = JobOptions(nodes, epoch=2, gd_params=(0.1,), callbacks=callbacks, class_weight={0: 2.0})
        spec = make_spec(Model.from_bytes(_start()), data, Shuffle(), options)
        text = job_text(spec, _JOB, Path("/nowhere/runs/P-SGD-1"))
    more = 'codec = {0 = "TopK", dense = "Plain"}\nps_codec = "file.py:Mine"\ndiscovery = "./hosts.sh"\n'
    odd = text.replace("[options]\n", f"[options]\n{more}").replace("gd_params = [0.1]", "gd_params = [0.1, {none = true}]")
    odd = odd.replace("codec_extra_parameters = []", 'codec_extra_parameters = {x = {tuple = [1]}, y = {pairs = [[3, "z"]]}}')
    return text.encode(), odd.replace('ps_codec = "file.py:Mine"\n', "").encode()


@cache
def _manifests() -> tuple[bytes, ...]:
    settings = tomllib.loads(_job_files()[0].decode())
    files = {JOB_FILE: _HASH, f"{NODE}/MODEL-P-SGD-N(0).model": _HASH}
    return (
        json.dumps(
            asdict(RunManifest(_JOB, files, settings, [[1, _HASH], [2, _HASH]], start={"dense/kernel": _HASH}))
        ).encode(),
    )


# ---- JSON and TOML


def _records(data: dict[str, Any], tables: dict[int, Any], rows: Any) -> RunRecords:
    return RunRecords(Path(), None, data, tables, rows)


def _outcome(data: bytes) -> Outcome:
    """What is taken can be told, too."""
    content = read_outcome(Door(scratch("a-run/outcome.json", data).parent))
    records = _records(content, {}, {})
    page_data(records), events(records), records.went_well
    return "read"


def _record(data: bytes) -> Outcome:
    read_run(Door(scratch("record/job.json", data).parent))
    return "read"


def _manifest(data: bytes) -> Outcome:
    made = RunManifest.read(scratch(f"manifest-run/{MANIFEST}", data).parent)
    assert all(isinstance(each, str) for each in (*made.files, *made.files.values(), *made.start.values()))
    return "read"


def _refuse(place: str, option: str) -> None:
    raise CodeRefused(f"{option}: {place}")


def _job_file(data: bytes) -> Outcome:
    """With all that it names resolved, and nothing imported that does not ship."""
    path = scratch(f"job/{JOB_FILE}", data)
    if not (path.parent / MODEL_FILE).exists():
        scratch(f"job/{MODEL_FILE}", _start())
    file = JobFile.read(path)
    flags = {name: about for name, about in options() if about.flag is not None}
    with guarded(_refuse):
        for name, value in file.options.items():
            flags[name].form.read(name, value)
        if file.dataset is not None:
            make_dataset(file.dataset)
        if file.transform is not None:
            make_transform(file.transform)
    return "read"


def _toml_altered(rng: random.Random, data: bytes) -> bytes:
    """What the file describes, altered; half of the time within one table."""
    try:
        tree = tomllib.loads(data.decode())
        if rng.randrange(2):
            table = rng.choice([name for name, value in tree.items() if isinstance(value, dict)])
            tree[table] = tree_altered(rng, tree[table])
        else:
            tree = tree_altered(rng, tree)
        return "".join(f"{toml_of(str(name))} = {toml_of(value)}\n" for name, value in tree.items()).encode()
    except (ValueError, TypeError, AttributeError, RecursionError, NoText, KeyError):
        return bytes_altered(rng, data)


# ---- tables

CELLS = ("inf", "nan", "-inf", "1e300", "-1", "0", "1", "1e5", "9" * 400, "", "x", '"', ",", "0x1", "1_0", " 1 ", "1.5", "\0")


def _table_altered(rng: random.Random, data: bytes) -> bytes:
    """Cells, rows and columns altered, exchanged, left out or repeated."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode())))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(rows)) if rng.randrange(6) else 0
            row = rows[at]
            match rng.randrange(8):
                case 0:
                    rows[at:at] = [list(row)] * rng.choice((1, 2, 400))
                case 1:
                    del rows[at]
                case 2:
                    row[rng.randrange(len(row))] = rng.choice(TEXTS)
                case 3:
                    row.insert(rng.randrange(len(row) + 1), rng.choice(CELLS))
                case 4:
                    other = rng.randrange(len(rows))
                    rows[at], rows[other] = rows[other], rows[at]
                case _:
                    row[rng.randrange(len(row))] = rng.choice(CELLS)
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue().encode("utf-8", "replace")
    except (ValueError, IndexError, csv.Error):
        return bytes_altered(rng, data)


def _told(kind: str, columns: Any, path: Path) -> None:
    """Have all that reads such a table tell of it."""
    tables = {0: {kind: columns}}
    records = _records({}, tables, columns if kind == "LEDGER" else {})
    page_data(records), events(records), trace(records.batches)
    if kind == "LEDGER":
        ledger(records)
        with contextlib.suppress(FileNotFoundError):
            collect("P-SGD", {0: [path]}, Grid(2, 4, 2))
            collect("P-SGD", {0: [path]}, Grid(2, 4, 2, resumed=True))
    elif kind in ("TR", "EV"):
        JobHistory.read({0: [path]})
        JobHistory.of({0: (columns, {}), 1: (columns, {})} if kind == "TR" else {0: ({}, columns)})
    elif kind == "WH":
        chain_of(read_hashes(path.parent.parent))


def _table(kind: str) -> Callable[[bytes], Outcome]:
    name = f"{kind}-P-SGD-N(0).csv"

    def take(data: bytes) -> Outcome:
        path = scratch(f"tables-{kind}/{NODE}/{name}", data)
        columns, remark = read_table(Door(path.parent.parent), f"{NODE}/{name}")
        assert len({len(column) for column in columns.values()}) <= 1 and remark == remark.replace("\n", "")
        _told(kind, columns, path)
        return "read"

    return take


# ---- headers


_ROWS = 17 << 20


@cache
def _headers() -> tuple[bytes, ...]:
    """The begin of a file that is far larger than what is written of it."""
    whole = seal({"a/kernel": np.zeros(_ROWS, np.float32), "b": np.zeros(3)}, {"format": "psgd.model/1"})
    return (b"".join(bytes(part) for part in whole[:2]),)


def _large(data: bytes) -> Outcome:
    path = scratch("large", data)
    os.truncate(path, len(_headers()[0]) + 4 * _ROWS + 24)
    with path.open("rb") as file:
        parse(read_opened(file, "large"), sealed=False)
    return "read"


def _checkpoint(data: bytes) -> Outcome:
    read_checkpoint(scratch(f"held/{FOLDER}/checkpoint-000001-00000000.safetensors", data))
    return "read"


def _json_target(name: str, *contents: object, take: Callable[[bytes], Outcome]) -> Target:
    seeds = [json.dumps(content).encode() for content in contents]
    return Target(name, lambda: seeds, take, (RecordError, ValueError), (json_altered,), 80 * MIB, 0.5)


def _table_target(kind: str) -> Target:
    seed = "".join(f"{line}\n" for line in _HEADS[kind]).encode()
    return Target(f"tables {kind}", lambda: [seed], _table(kind), (), (_table_altered,), 16 * MIB, 0.25)


RECORDS = (
    _json_target("outcomes of runs", _OUTCOME, {**_OUTCOME, **_FAILED, **_ENDS, "incidents": _INCIDENTS}, take=_outcome),
    _json_target("records of runs", _RUN, take=_record),
    Target("manifests of runs", _manifests, _manifest, (ValueError,), (json_altered,), 80 * MIB, 0.5),
    Target("job files", _job_files, _job_file, (ValueError, TypeError), (_toml_altered,), 80 * MIB, 0.5),
    *map(_table_target, TABLES),
    Target("headers of large files", _headers, _large, (ModelFileError,), (tensors_altered,), 160 * MIB, 0.25),
    Target("checkpoints of runs", snapshots, _checkpoint, (CheckpointError,), (tensors_altered,), weight=0.25),
)

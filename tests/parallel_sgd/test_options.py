"""An option of `parallel()` is stated once: its signature, `--help` and docs/options.md are those of the fields. Nonsense, and
parts that do not go together, are refused before anything is sent: named, with what is expected, and what came.

`python -m tests.parallel_sgd.test_options` writes docs/options.md anew.
"""

from __future__ import annotations

import inspect
import math
import re
import socket
import threading
from dataclasses import MISSING, Field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from executor import ClusterExecutor
from network import ClosedByUs, NodeAssignment, Request
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model, SequentialModel
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    GAOptimizer,
    GDOptimizer,
    GradientAveragingOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
)
from parallel_sgd import JobResult, ParallelSGD, elastic, in_process, local_workers, nodes_from, parse_worker
from parallel_sgd.batch_sync import ISyncType, StaleSynchronous
from parallel_sgd.codec import (
    REQUIRED,
    Codec,
    DummyCodec,
    GlobalSettings,
    LocalSGD,
    MissingParameter,
    Plain,
    SyncPS,
    TopK,
    Traits,
)
from parallel_sgd.codec.async_ps import AsyncPS
from parallel_sgd.codec.compose import CodecWarning
from parallel_sgd.commands.options import make_parser, settings_of
from parallel_sgd.options.compatibility import check_copies, check_meaning
from parallel_sgd.options.forms import FORMS
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.profiles.blockassignment.abstract import AbsBlockAssignment
from parallel_sgd.record.job_file import types
from parallel_sgd.writers import TensorBoardWriter
from tests.nn.model.models import Line
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import digits_job
from tests.sources import ROOT
from tests.statements import covers

PAGE = ROOT / "docs" / "options.md"
HEAD = """# Options of a job

What `ParallelSGD(model, data, transform).parallel(nodes, ...)` takes, each with its type, its default and the option of
`psgd submit` that says the same. Up to `codec_extra_parameters` they may be given by position. This page is made of
`parallel_sgd/options/job_options.py`.

`AssignmentChoice`, `CodecChoice`, `OptimizerChoice` and `RuleChoice` are a class of this kind, or its word. Type checkers know
the words of each part, such as 'topk', and refuse others. A text such as `module.Class` or `file.py:Class` is for the command
line and job files: in a program give the class, and in place of 'stale:99' `StaleSynchronous(99)`: a type lists words, and has
no pattern for them.
"""


def row(field: Field[Any]) -> str:
    about, default = field.metadata["option"], field.default
    shown = "no default" if default is MISSING else f"default `{getattr(default, '__name__', repr(default))}`"
    flags = "" if about.flag is None else "; " + ", ".join(f"`{name}`" for name in about.flag.names)
    return f"\n## `{field.name}`\n\n`{field.type}`, {shown}{flags}\n\n{about.text[0].upper()}{about.text[1:]}\n"


def page() -> str:
    return HEAD + "".join(map(row, fields(JobOptions)))


def test_page_signature_and_command_line_are_those_of_the_fields() -> None:
    """Real parameters, in order, with types and defaults; `help()` tells each. `()` of `gd_params` and {} of parameters are the
    same as none of them."""
    assert PAGE.read_text() == page(), "docs/options.md is stale: run python -m tests.parallel_sgd.test_options"
    itself, *parameters = inspect.signature(ParallelSGD.parallel).parameters.values()
    lacking = ", ".join({p.name for p in parameters} - NONSENSE.keys())
    assert not lacking, (
        f"add values of {lacking} that are refused, and what is said, to NONSENSE in tests/parallel_sgd/test_options.py"
    )
    assert itself.name == "self" and {p.name for p in parameters} == set(NONSENSE)
    assert [(p.name, p.annotation, p.default is p.empty or p.default) for p in parameters] == [
        (f.name, f.type, f.default is MISSING or f.default) for f in fields(JobOptions)
    ]
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == [f.name for f in fields(JobOptions) if f.kw_only]
    told = inspect.getdoc(ParallelSGD.parallel) or ""
    assert all(f"    {f.name}: {f.metadata['option'].text[:20]}" in told for f in fields(JobOptions))
    given = settings_of(make_parser().parse_args(["-m", "dnn.model"]))
    defaults = {f.name: f.default or None for f in fields(JobOptions) if f.metadata["option"].flag is not None}
    assert {name: given[name] or None for name in defaults} == defaults


WRITTEN: dict[str, list[Any]] = {  # values beside the default, and what stands for them in a job file
    "assignment_type": [(DuplicateAssignment, "DuplicateAssignment"), (FixedBlockAssignment.of(blocks=8), "fixed:8")],
    "sync_type": [(StaleSynchronous(3), "stale:3"), (StaleSynchronous(math.inf), "stale:inf")],
    "codec": [(TopK, "TopK"), ({0: TopK, "dense_1": Plain}, {"0": "TopK", "dense_1": "Plain"})],
    "gd_params": [((0.1, 0.9), [0.1, 0.9]), ({"learn_rate": 0.1}, {"learn_rate": 0.1})],
    "codec_extra_parameters": [({"bits": 4, "rate": 0.5, "how": "fast"}, ["bits=4", "rate=0.5", "how=fast"])],
    "blas_threads": [("auto", "auto"), (2, "2")],
    "checkpoint_every": [(7, "7"), ("30s", "30s"), (None, "off")],
    "class_weight": [({0: 1.5, 3: 0.1}, "0=1.5,3=0.1"), ({"big": 2.0}, "big=2.0"), ("balanced", "balanced")],
    "discovery": [(Path("hosts.sh"), "hosts.sh")],
}


FLAGGED = {field.name: field for field in fields(JobOptions) if field.metadata["option"].flag is not None}


@pytest.mark.parametrize("name", FLAGGED)
def test_a_value_is_written_into_the_job_file_as_it_is_read(name: str) -> None:
    """Of the kind of value that the flag has there."""
    about = FLAGGED[name].metadata["option"]
    for value, expected in [(FLAGGED[name].default, None), *WRITTEN.get(name, [])]:
        plain = about.check(name, value)
        text = about.form.write(plain)
        if text is not None:
            assert type(text) in types(about.flag) and expected in (None, text)
            assert about.check(name, about.form.read(about.flag.names[0], text)) == (text if name == "discovery" else plain)


def test_the_group_of_a_flag_says_what_has_no_part_in_the_bits() -> None:
    """`psgd run` names none of these as a reason for other weights, and `psgd verify` takes their defaults."""
    decisive = {name: field.metadata["option"].flag.decides for name, field in FLAGGED.items()}
    assert not any(decisive[name] for name in ("wait", "mission_title", "page", "writers", "on_failure", "stall_timeout"))
    assert not any(decisive[name] for name in ("fault", "discovery", "checkpoint_every", "keep_every", "commit_every"))
    assert all(decisive[name] for name in ("block_size", "seed", "epoch", "codec", "shuffle", "resume", "callbacks", "bits"))


# classes as version 0.9 asked for them: the interfaces kept their names, not their methods


class OldOptimizer(IOptimizer):
    def optimize(self, variable: Any) -> None: ...


class OldRule(IGradientDescent):
    def delta(self, gradient: Any) -> Any: ...  # type: ignore[override]


class OldSync(ISyncType):
    def update_weights(self, content: Any, batch_no: int, block_id: int) -> Any: ...


class OldAssignment(AbsBlockAssignment):
    @property
    def block_2_node(self) -> Any: ...


class NoExchange(Codec):
    def update_blocks(self, block_weight: Any) -> None: ...

    def receive_blocks(self, content: Any) -> None: ...


class Misspelt(Codec):
    def update_block(self, block_weight: Any) -> None: ...

    def receive_blocks(self, content: Any) -> None: ...


class Bare(NoExchange):
    def __init__(self, node_id: int) -> None:
        self.own = node_id


class NoNode(NoExchange):
    def __init__(self) -> None:
        super().__init__(0)


POSITIVE = "must be a positive integer, got {!r}"
NOT_NEGATIVE = "must be a number >= 0, got {!r}"
ABOVE_ZERO = "must be a number > 0, got {!r}"
COMPLETE = "must be a complete class derived from "
CODECS = "must be a subclass of Codec or a dict of them by variable id, got {!r}"
LAYERS = "but the model has the layers dense_1, dense_2, dense_3"
FILE_NAME = "must be able to stand in a file name .*, got {!r}"
ASCII = "'mission_title' must be at most 100 ASCII letters"
TRAVEL = "must hold what may travel: .*"
BATCHES = "must be 'epoch', a positive number of batches, seconds such as '30s', .* got {!r}"
NONSENSE: dict[str, list[tuple[Any, ...]]] = {  # what is said after the name of the option, or in all, and of which values
    "clients": [
        ("must be an instance of Clients, got int 10", 10),
        (r"'clients' needs count and sample, as in 'clients' count=100,sample=10", "epochs=2"),
        (r"'clients' has no argument 'smaple'; did you mean 'sample'\?", "count=10,smaple=2"),
        ("'clients' split 'dirichlt' is unknown; did you mean 'dirichlet'", "count=10,sample=2,split=dirichlt"),
        ("Clients 'sample' must be at most the number of clients, 10, got 20", "count=10,sample=20"),
        ("has 1 slots in a round, .* got 2", "count=10,sample=1"),
    ],
    "keep_data": [("must be", -1, math.nan, "64", None)],
    "sign": [
        ("must be the path of a private key, got 3", 3),
        ("must be a key that can be read, got none.key: No such file or directory", "none.key", Path("none.key")),
    ],
    "nodes": [
        (r"must be an instance of NodeAssignment, from parallel_sgd.local_workers\(2\), .*, got int 3", 3),
        ("must be an instance of NodeAssignment, .* got .*; write 'with .. as nodes:'", nodes_from("local:2")),
        (r"must hold the workers 0\.\.n-1, got \[\]", NodeAssignment()),
        (r"must hold the workers 0\.\.n-1, got \[1\]", NodeAssignment().add(1, "localhost")),
    ],
    "redundancy": [(POSITIVE, 0, 2.5), ("must not exceed the number of workers, got 3 for 2", 3)],
    "block_size": [
        (POSITIVE, 0, 1.5, "64"),
        (r".*at least one batch of 20000 samples \(block_size 10000 x 2 blocks\), got 1500", 10_000),
    ],
    "epoch": [(POSITIVE, 0, 2.0, None)],
    "assignment_type": [
        ("must be a class or a callable .*, got <.*IIDBlockAssignment", IIDBlockAssignment(2)),
        ("must be a complete class .*OldAssignment'>, which lacks deal", OldAssignment),
        (r"must be callable with \(node_count, redundancy\), got ", dict),
        ("must give an ISetting, got list", lambda n, r: [[0], [1]]),
        ("must deal to 2 workers, got one for 3", lambda n, r: IIDBlockAssignment(3)),
        ("'blocks' must be at least 2, a block for each of 2 workers", FixedBlockAssignment.of(blocks=1)),
    ],
    "sync_type": [
        (r"'sync_type' 'sgd' is unknown; did you mean 'ssgd'\?", "sgd"),
        (f"{COMPLETE}ISyncType, got <class", ISyncType),
        ("must be .*OldSync'>, which lacks begin, .*receive", OldSync),
    ],
    "op_type": [
        (f"{COMPLETE}IOptimizer, got <class.*ADAM", ADAMOptimizer),
        (f"{COMPLETE}IOptimizer, got <class", IOptimizer),
        ("must be .*OldOptimizer'>, which lacks finish_batch, gradient_ready", OldOptimizer),
        (
            "must be an optimizer that exchanges something, e.g. PSGDOptimizer, got GDOptimizer; to train every "
            "worker alone use codec=DummyCodec",
            GDOptimizer,
        ),
    ],
    "gd_type": [
        (r"'gd_type' 'adm' is unknown; did you mean .*ADAM.*\?", "adm"),
        (f"{COMPLETE}IGradientDescent, got .*ADAM", ADAMOptimizer()),
        (f"{COMPLETE}IGradientDescent, got <class", IGradientDescent),
        ("must be .*OldRule'>, which lacks increment", OldRule),
    ],
    "codec": [
        (r"'codec' 'topkk' is unknown; did you mean 'TopK'\?", "topkk", {"dense_1": "topkk"}),
        (CODECS, 3),
        ("must be a subclass of Codec .*Codec'>, which lacks receive_blocks, update_blocks", Codec),
        (r"must be .*Misspelt'>, which lacks update_blocks \(it has update_block\)$", Misspelt),
        ("must be .*, got an object of NoExchange; give the class, the job makes the objects: NoExchange", NoExchange(0)),
        (r"Bare.__init__\(\) must call super\(\).__init__\(node_id\)", Bare),
        (r"NoNode.__init__\(\) must take \(self, node_id\), and call super\(\).__init__\(node_id\)", NoNode),
        ("'codec': the file plian.py does not exist.$", "plian.py:Plain"),
        (r"names variable 99, but the model has the variables 0\.\.5", {0: Plain, 99: Plain}),
        (f"names 'dense_9', {LAYERS}", {"dense_9": Plain}),
        (f"names 'dense_1/scale', {LAYERS}", {"dense_1/scale": Plain}),
        (r"names variable None, but the model has the variables 0\.\.5", {None: Plain}),
    ],
    "gd_params": [
        ("must be a tuple of arguments or a dict of them, got 0.1", 0.1),
        (r"gd_params=\('fast',\).*'learn_rate' must be a number >= 0, got 'fast'", ("fast",)),
        (r"gd_params=\(0.001, 0.9, 0.999, 1e-08, 0, None, None, None, 5\)", (1e-3, 0.9, 0.999, 1e-8, 0, None, None, None, 5)),
        ("'learn_rate' must be a number >= 0, got -1", (-1.0,)),
    ],
    "ps_codec": [
        (CODECS, 3),
        ("names 'dense_0', but the model has the layers", {"dense_0": Plain}),
        (r"needs a parameter server among the nodes: parse_worker\(n, ps=True\)", Plain),
    ],
    "network_bandwidth": [(ABOVE_ZERO, 0, "1M", math.nan)],
    "mission_title": [
        (FILE_NAME, "", "a/b", ".."),
        (ASCII, "x" * 120),
        (f"{ASCII}, .*, got '实验'", "实验"),
        ("must be .* and begin with a letter or a digit, got '.hidden'", ".hidden"),
        ("must be a text, got 7", 7),
    ],
    "ssgd_timeout_limit": [(ABOVE_ZERO, 0, -5, "1s", math.nan)],
    "codec_extra_parameters": [
        ("must be a dict, got list", ["bits"]),
        (f"{TRAVEL}lock", {threading.Lock(): 1}),
        (f"{TRAVEL}type", {99: "x", "bits": object}),
        (f"{TRAVEL}object", {"when": object()}),
    ],
    "seed": [("must be an integer from 0 to .*, got {!r}", -1, 1.5, 1 << 63)],
    "wait": [(NOT_NEGATIVE, -1, "long", math.nan)],
    "epochs": [("must be a positive integer, got 0", 0)],
    "job_title": [("must be able to stand in a file name", "a\nb")],
    "blas_threads": [("must be a positive integer or 'auto', got {!r}", 0, "all")],
    "bits": [("must be one of 'portable', 'SkylakeX', 'Haswell', or None, got {!r}", "equal", 32)],
    "on_failure": [("must be one of .*, got 'hope'", "hope")],
    "stall_timeout": [("must be a number >= 0.1 and < 86400, got {!r}", 0.05, "5")],
    "fault": [
        ("The fault clause 'kill 7@e1' names node 7; the job has the nodes 0, 1.", "kill 7@e1"),
        ("The fault clause 'kill 1@e99' names epoch 99; the job has .*", "kill 1@e99"),
        (".*explode", "explode 1@e1"),
        ("A fault plan must be a text such as 'kill 1@e1.b3; .*, got 3", 3),
    ],
    "min_workers": [
        ("must be an integer from 1 to the number of workers, 2, got 0", 0),
        ("needs on_failure='shrink', got 'fail'", 2),
    ],
    "max_workers": [("needs 'discovery', which finds more workers, got 4 without one", 4)],
    "discovery": [("discovery.* got 5", 5)],
    "max_restarts": [("must be an integer of 0 or more, got -1", -1)],
    "checkpoint_every": [(BATCHES, "often", 0)],
    "keep_every": [("must be a positive integer, got {!r}", 0, -1, 1.5, "epoch", True)],
    "commit_every": [("must be a positive number of batches, got {!r}", 0, 1.5, True)],
    "resume": [
        ("must be 'last', a job id or a path, got", 3, True, b"x", ""),
        ("must be 'last', a job id or the path of a checkpoint, and there is nothing at 'no/where'", "no/where"),
    ],
    "verbose": [("must be 0, 1 or 2, got {!r}", 3, "all")],
    "class_weight": [
        ("must map class numbers to weights, got list", [1.0, 2.0]),
        ("must have class numbers as keys, got 'a'", {"a": 1.0}),
        (r"'class_weight\[0\]' must be a number >= 0, got -1", {0: -1}),
        ("must name classes of the model, 0 to 9, got 11", {11: 1.0}),
    ],
    "directory": [("must be a path, got {!r}", 3, None)],
    "writers": [("must be a list of writers, got", 3, "tensorboard")],
    "callbacks": [("must be a list of callbacks, got", 3, "early")],
}


# what is no switch is the same for all of them
NONSENSE |= {each.name: [("must be True or False, got {!r}", 1, "no")] for each in fields(JobOptions) if each.type == "bool"}


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        pytest.param(name, words, value, id=f"{name}-{n}-{m}")
        for name, rows in NONSENSE.items()
        for n, (words, *values) in enumerate(rows)
        for m, value in enumerate(values)
    ],
)
def test_nonsense_is_refused_before_anything_is_sent(name: str, words: str, value: Any, tmp_path: Path) -> None:
    if words.startswith(("must", "needs", "names")):
        words = f"'{name}' {words}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(0)
        nodes = NodeAssignment()
        for node, host in enumerate(("127.0.0.1", "localhost")):
            nodes.add(node, f"{host}:{silent.getsockname()[1]}")
        settings: dict[str, Any] = {"nodes": nodes, "directory": tmp_path / "out", name: value}
        with pytest.raises((ValueError, TypeError), match=words.replace("{!r}", re.escape(repr(value)))):
            digits_job().parallel(**settings)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert not (tmp_path / "out").exists()


def test_words_stand_for_parts(tmp_path: Path) -> None:
    """As on the command line; `epochs` is `epoch`."""
    parts: dict[str, Any] = {"gd_type": SGDOptimizer, "op_type": PSGDOptimizer, "codec": {0: TopK}, "epoch": 2}
    words: dict[str, Any] = {"gd_type": "sgd", "op_type": "psgd", "codec": {0: "topk"}, "epochs": 2}
    words |= {"sync_type": "ssgd", "assignment_type": "iid"}
    with in_process(2) as nodes:
        by_class, by_word = (digits_job().parallel(nodes, directory=tmp_path, **given) for given in (parts, words))
    assert by_class == by_word and len(by_word.history) == 2
    assert by_class.models[0].store.values.tobytes() == by_word.models[1].store.values.tobytes()


def bare(shape: list[int] | None = None, loss: nn.loss.Loss | None = None) -> SequentialModel:
    model = SequentialModel(input_shape=shape) if shape else SequentialModel()
    model.add(nn.layer.Dense(10))
    if loss:
        model.setup(loss)
    return model


DATA = nn.dataset.Digits()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ParallelSGD(None, DATA), TypeError, "^ParallelSGD 'model' must be an instance of Model, got NoneType None"),
        (
            lambda: ParallelSGD(mlp(), nn.dataset.Digits),
            *(TypeError, r"^ParallelSGD 'data' must be an instance of AbsDataset, got the class; write Digits\(\)"),
        ),
        (
            lambda: ParallelSGD(mlp(), DATA.load()),
            TypeError,
            r"^ParallelSGD 'data' must be a data set, got tuple: give nn.dataset.ArrayDataset\(x, y, test_x, test_y\)$",
        ),
        (
            lambda: ParallelSGD(mlp(), DATA, {"x": np.zeros(9999)}),
            *(TypeError, r"^ParallelSGD 'transform' must be an instance of AbsTransformer, got dict .{0,80}$"),
        ),
        *(
            (
                lambda model=model: submit(Path("never"), model=model),
                *(
                    ValueError,
                    r"^ParallelSGD 'model' must have its variables: .* input_shape and call setup\(\) or compile\(\)$",
                ),
            )
            for model in (bare(loss=nn.loss.MSELoss()), bare([-1, 64]))
        ),
        (
            lambda: submit(Path("never"), model=Line()),
            *(ValueError, r": in super\(\)\.__init__\(input_shape=\[-1, \.\.\]\) of its class "),
        ),
        (
            lambda: ParallelSGD.parallel(None, None, max_restart=1),
            *(
                TypeError,
                r"^parallel\(\) has no argument 'max_restart'; did you mean max_restarts\?$",
            ),
        ),
        (
            lambda: ParallelSGD.parallel(None, None, device="cuda"),
            *(TypeError, r"^parallel\(\) has no argument 'device': it computes on CPUs, and on no other device$"),
        ),
        *(
            (
                lambda other=other: ParallelSGD.parallel(None, None, **{other: 1}),
                *(TypeError, rf"^parallel\(\) has no argument '{other}'; did you mean {ours}\?$"),
            )
            for other, ours in (("learn_rate", r"gd_params=\(0.01,\)"), ("batch_size", "block_size"))
        ),
        *(
            (
                lambda given=given: ParallelSGD.parallel(None, in_process(1), **given),
                *(ValueError, rf"^parallel\(\) takes '{name}' or '{other}', which is the same, got both, 'a' and 'b'$"),
            )
            for name, other in (("epoch", "epochs"), ("mission_title", "job_title"))
            for given in ({name: "a", other: "b"},)
        ),
        (
            lambda: ParallelSGD.parallel(None),
            *(
                TypeError,
                r"^parallel\(\) needs 'nodes', from parallel_sgd\.local_workers\(2\), in_process\(2\) or parse_worker\(\)$",
            ),
        ),
        (
            lambda: ParallelSGD.parallel(None, *range(30)),
            *(TypeError, r"^parallel\(\) takes at most \d+ arguments without a name, got 30; .* nodes, .* and \d+ more$"),
        ),
        (
            lambda: ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls()).parallel(in_process(1), directory=r"C:\\runs"),
            *(ValueError, r"'directory' must be a path as this system writes it, .* in WSL it is '/mnt/c/runs'$"),
        ),
        (
            lambda: parse_worker(4, "my.json"),
            *(TypeError, r"'ps' must be True or False .*, got 'my.json'; write parse_worker\(4, filename='my.json'\)"),
        ),
        *(
            (lambda start=start, ps=ps: start(1, ps).__enter__(), TypeError, f"'ps' must be True or False .*, got {ps!r}$")
            for start in (local_workers, in_process, partial(nodes_from, "local:1"))
            for ps in ("Plain", 1, None)
        ),
    ],
)
def test_a_call_that_does_not_fit_names_its_argument(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    assert not Path("never").exists()


@pytest.mark.processes
def test_nodes_outlive_their_block_in_vain(tmp_path: Path) -> None:
    """What is said is that the block has ended, not that its key file is missing."""
    with local_workers(1) as nodes:
        assert not list(tmp_path.iterdir())
    told = r"These workers have ended, with close\(\) or with the 'with' block that started them: .*run that cell again"
    assert repr(nodes).endswith("; closed)")
    for use in (
        lambda: Request().request(nodes),
        lambda: elastic.launch(int, nodes),
        lambda: ClusterExecutor(nodes),
        lambda: ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls()).parallel(nodes, directory=tmp_path),
    ):
        with pytest.raises(ClosedByUs, match=told):
            use()
    assert not list(tmp_path.iterdir())  # no folder of a run that never was


def test_the_mean_of_equal_figures_is_that_figure() -> None:
    values = nn.random.keyed(0, "figures").normal(size=200)
    for count in (3, 5, 7):
        for value in values:
            result = JobResult({node: {"Loss": float(value)} for node in range(count)}, {}, {}, {}, "job")
            assert result == {"Loss": float(value)}


@covers("RUN-8")
def test_a_figure_that_is_no_finite_number_is_left_out_and_its_node_named(caplog: pytest.LogCaptureFixture) -> None:
    """Another node's stays; where none has told one, there is none."""
    for wrong in (math.nan, math.inf, "x", None, True, [1.0]):
        caplog.clear()
        result = JobResult({0: {"Loss": wrong, "accuracy": 0.5}, 1: {"Loss": 1.0, "accuracy": 1.0}}, {}, {}, {}, "job")  # type: ignore[dict-item]
        assert result == {"Loss": 1.0, "accuracy": 0.75} and "Node(0): its figure Loss is" in caplog.text
    assert np.isnan(JobResult({0: {"Loss": math.nan}}, {}, {}, {}, "job")["Loss"])
    assert JobResult({0: 7, 1: {"Loss": 1.0}}, {}, {}, {}, "job") == {"Loss": 1.0}  # type: ignore[dict-item]


# parts that do not go together


class Silent(Codec):
    """A codec as users write them: it declares nothing."""

    def update_blocks(self, block_weight: object) -> None:
        pass

    def receive_blocks(self, content: object) -> None:
        pass


class Updating(Silent):
    """Takes updates, whatever they are turned into."""

    traits = Traits(takes="updates", gives="parameters")


class Needy(Silent):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        GlobalSettings.get_params("rate", REQUIRED)


class Choosy(Silent):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if GlobalSettings.get_params("rate") > 1:
            raise ValueError(f"Choosy 'rate' must be at most 1, got {GlobalSettings.get_params('rate')}")


class Elsewhere(Plain):
    """Works only where there is a certain file."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if GlobalSettings.current().seed == 99:
            raise FileNotFoundError("no table of codes here")


def submit(tmp_path: Path, workers: int = 2, ps: bool = False, model: Model | None = None, **settings: Any) -> dict[str, float]:
    return ParallelSGD(model or mlp(), nn.dataset.Digits(), ImageCls()).parallel(
        in_process(workers, ps=ps), directory=tmp_path / "out", **{"block_size": 256, "epoch": 1, **settings}
    )


SERVED: dict[str, Any] = {"codec": AsyncPS, "ps": True}
USE = "use op_type=GradientAveragingOptimizer"
NEEDS_RATE = r"Needy needs the parameter 'rate': pass codec_extra_parameters=\{'rate':"
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"op_type": GradientAveragingOptimizer},
        "'codec' Plain gives back gradients, but 'op_type' GradientAveragingOptimizer takes results for parameters: use "
        "op_type=DoubleBufferingOptimizer or .*PSGDOptimizer",
    ),
    (SERVED, f"'codec' AsyncPS gives back parameters, but 'op_type' PSGDOptimizer takes results for gradients: {USE}"),
    (
        {**SERVED, "op_type": FederatedOptimizer},
        f"'codec' AsyncPS takes gradients, but 'op_type' FederatedOptimizer puts parameters: {USE}",
    ),
    ({"codec": {3: Updating}}, "'codec' Updating takes updates, but .* PSGDOptimizer puts gradients: no optimizer that ships"),
    ({"codec": SyncPS}, r"'codec' SyncPS needs a parameter server among the nodes: parse_worker\(n, ps=True\)"),
    ({"codec": Plain, "sync_type": StaleSynchronous(2)}, r"'sync_type' StaleSynchronous\(2\) cannot run 'codec' Plain, "),
    (
        {"op_type": LocalUpdateOptimizer, "redundancy": 2, "workers": 3},
        "'op_type' LocalUpdateOptimizer puts what depends on all blocks of a worker, so workers that share a block must share "
        r"all of them, but 'assignment_type' IIDBlockAssignment deals block 0 to node 0 with blocks \[0, 1\] and to node 1 "
        r"with blocks \[0, 2\]: use DuplicateAssignment, redundancy=1, or op_type=PSGDOptimizer",
    ),
    ({"codec": Choosy, "codec_extra_parameters": {"rate": 2}}, "Choosy 'rate' must be at most 1, got 2"),
    ({"codec": {0: Choosy}, "codec_extra_parameters": {"rate": "fast"}}, "'>' not supported between"),
    # only `default=REQUIRED` raises; here before anything is sent, for either side
    ({"codec": {1: Needy}}, NEEDS_RATE),
    ({"ps": True, "ps_codec": Needy}, NEEDS_RATE),
    (
        {"redundancy": 2, "assignment_type": DuplicateAssignment, "workers": 3},
        "'redundancy' must divide the number of workers, got 2 for 3",
    ),
]


@covers("SUB-29")
@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[text[:50] for _, text in REFUSED])
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Before anything is sent, naming both and what to take instead."""
    error = MissingParameter if message == NEEDS_RATE else (ValueError, TypeError)
    with pytest.raises(error, match=message):
        submit(tmp_path, **settings)
    assert not (tmp_path / "out").exists()


def test_a_codec_that_does_not_suit_the_rule_is_a_warning(tmp_path: Path) -> None:
    """Momentum after a merge of what error feedback sends late."""
    words = r"TopK .* ADAMOptimizer with beta1=0\.9 .*: use op_type=LocalUpdateOptimizer"
    with pytest.warns(CodecWarning, match=words) as caught, in_process(2) as nodes:
        digits_job().parallel(nodes, 1, 256, 1, codec={"dense_1": TopK, "dense_2": TopK}, directory=tmp_path)
    assert [warning.filename for warning in caught] == [__file__], "once, at the caller of parallel()"
    submit(tmp_path, codec=TopK, gd_type=SGDOptimizer)
    submit(tmp_path, codec=TopK, op_type=LocalUpdateOptimizer)


def test_batches_that_optimizer_and_codec_both_leave_out_are_a_warning(tmp_path: Path) -> None:
    """Without it a job of fewer than 150 times 5 batches exchanges nothing, and says no word."""
    words = r"LocalSGD exchanges in some .* FederatedOptimizer gives it one of 150, .*: use op_type=ParameterAveragingOptimizer"
    settings: dict[str, Any] = {"codec": LocalSGD, "codec_extra_parameters": {"local_batches": 5}}
    with pytest.warns(CodecWarning, match=words):
        submit(tmp_path, **settings, op_type=FederatedOptimizer)
    submit(tmp_path, **settings, op_type=ParameterAveragingOptimizer)
    # either of them alone counts the batches
    submit(tmp_path, codec=LocalSGD, codec_extra_parameters={"local_batches": 1}, op_type=FederatedOptimizer)
    # and the error for another optimizer does not advise it
    with pytest.raises(ValueError, match=r"'codec' LocalSGD takes parameters, .*: use op_type=ParameterAveragingOptimizer$"):
        submit(tmp_path, **settings)


@pytest.mark.parametrize(
    ("compiled", "settings", "is_told"),
    [
        (SGDOptimizer(0.5), {}, True),
        (SGDOptimizer(0.5), {"gd_type": SGDOptimizer, "gd_params": (0.5,)}, False),
        (ADAMOptimizer(0.5), {}, True),
        ("adam", {}, False),
        (None, {}, False),
    ],
)
def test_a_rule_that_the_job_does_not_take_is_told(
    compiled: Any, settings: dict[str, Any], is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`compile` is for `fit`; a job that trains by the default all the same says so, unless both are one."""
    model = mlp()
    if compiled is not None:
        model.compile(compiled)
    with in_process(1) as nodes:
        digits_job(model).parallel(nodes, epoch=1, verbose=0, directory=tmp_path, **settings)
    told = [record.message for record in caplog.records if "the rule of compile()" in record.message]
    assert len(told) == is_told, told
    for text in told:
        assert (
            "by the default of 'gd_type', ADAMOptimizer" in text
            and f"give gd_type={type(compiled).__name__} and gd_par" in text
        )


def test_what_depends_on_the_place_is_left_to_the_workers(tmp_path: Path) -> None:
    """Trying the codecs leaves no trace."""
    model = mlp()
    before = model.store.values.copy()
    assert submit(tmp_path, codec=Elsewhere, model=model)["Loss"] > 0
    assert np.array_equal(model.store.values, before)
    with pytest.raises(LookupError, match="GlobalSettings is empty outside a job"):
        GlobalSettings.get_default()
    with pytest.raises(FileNotFoundError, match="no table"):
        submit(tmp_path / "begun", codec=Elsewhere, seed=99)
    assert (tmp_path / "begun" / "out").exists()


@pytest.mark.parametrize(
    ("op_type", "codec"),
    [
        (PSGDOptimizer, Plain),
        (PSGDOptimizer, DummyCodec),
        (GAOptimizer, SyncPS),
        (GAOptimizer, TopK),
        (DoubleBufferingOptimizer, SyncPS),
        (LocalUpdateOptimizer, Plain),
        (ParameterAveragingOptimizer, SyncPS),
        (GradientAveragingOptimizer, AsyncPS),
        (GradientAveragingOptimizer, Silent),
    ],
)
def test_what_can_work_is_not(op_type: type[IOptimizer], codec: type[Codec]) -> None:
    check_meaning(op_type, codec)


@pytest.mark.parametrize(
    ("op_type", "assignment", "codec", "has_buffers"),
    [
        *(
            (LocalUpdateOptimizer, assignment, Plain, True)  # groups that share all their blocks may put what they like
            for assignment in (IIDBlockAssignment(3), DuplicateAssignment(4, 2), FixedBlockAssignment(4, 2, 4))
        ),
        (LocalUpdateOptimizer, IIDBlockAssignment(3, 2), DummyCodec, False),  # it matters where the first one counts
        (PSGDOptimizer, IIDBlockAssignment(3, 2), Plain, True),
    ],
)
def test_copies_that_are_equal(op_type: type[IOptimizer], assignment: ISetting, codec: type[Codec], has_buffers: bool) -> None:
    check_copies(op_type, assignment, [codec], has_buffers=has_buffers)
    with pytest.raises(ValueError, match="ParameterAveragingOptimizer puts what depends on all blocks"):
        check_copies(ParameterAveragingOptimizer, IIDBlockAssignment(3, 2), [DummyCodec], has_buffers=True)


def test_a_writer_of_this_project_has_a_text() -> None:
    made = object.__new__(TensorBoardWriter)  # its constructor asks for the library of an extra
    made.directory, made.name = Path("curves"), None
    assert FORMS["writers"].write([made]) == ["TensorBoardWriter:directory='curves',name=None"]


if __name__ == "__main__":
    PAGE.write_text(page())

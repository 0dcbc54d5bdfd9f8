"""Data sets and transforms with their arguments, as a command line names them."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from nn.dataset import CSVDataset, Digits, NpzDataset
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms import Augment, ImageCls, Normalize, Shuffle
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.wrapping import WrappingRule
from nn.optimizer import IOptimizer
from parallel_sgd import batch_sync, profiles
from parallel_sgd import codec as codecs
from parallel_sgd.__main__ import main
from parallel_sgd.batch_sync.sync.interface import ISyncType, SyncSetting
from parallel_sgd.commands.options import make_dataset, make_transform
from parallel_sgd.commands.output import EXIT_USAGE
from parallel_sgd.options import named_parts
from parallel_sgd.options.names import UnknownName, known_classes, literal, split_objects, without_defaults
from parallel_sgd.profiles.blockassignment.abstract import AbsBlockAssignment
from parallel_sgd.record.door import Door
from parallel_sgd.record.settings import settings_of_run
from tests.parallel_sgd.networks import mlp
from tests.sources import ROOT

from ..statements import covers


@pytest.fixture(autouse=True)
def modules_of_ones_own_go() -> Iterator[None]:
    """What a test imports by its name stays no longer than the test."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in ("own_rows", "own_steps"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ImageCls:flatten=True,channels=False", "ImageCls"),
        ("Shuffle,ImageCls:flatten=False,channels=False", "Shuffle,ImageCls:flatten=False"),
        ("imagecls:flatten=1", "imagecls:flatten=1"),
        ("mine.py:Scale:factors=[1, 2],ImageCls:flatten=True", "mine.py:Scale:factors=[1, 2],ImageCls"),
        ("none", "none"),
        ("ImageCls:odd=True,flatten=True", "ImageCls:odd=True"),
    ],
)
def test_arguments_that_are_defaults_are_left_out_for_people(text: str, said: str) -> None:
    assert without_defaults(text, known_classes(nn.dataset.transforms, AbsTransformer)) == said


def test_what_a_table_is_read_by_is_left_out_unless_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "1,a\n2,b\n" * 20)
    cases: list[tuple[dict[str, Any], str]] = [({}, ""), ({"missing": "drop", "decimal": ","}, ",missing='drop',decimal=','")]
    for given, said in cases:
        data = nn.dataset.CSVDataset(tmp_path / "a.csv", label="y", **given)
        with parallel_sgd.in_process(1) as nodes:
            model = nn.model.SequentialModel([-1, 1], [nn.layer.Dense(2, "softmax")])
            model.setup("crossentropy")
            job = parallel_sgd.ParallelSGD(model, data)
            run = job.parallel(nodes, epoch=1, block_size=4, directory=tmp_path, verbose=0).folder
        assert run is not None
        assert settings_of_run(Door(run))["dataset"] == f"CSVDataset:path='../../a.csv',label='y'{said}"


class Spelled:
    """A class with defaults that are dicts, one of them as None."""

    def __init__(self, ranks: dict[str, int] = {"a": 1, "b": 2}, order: dict[str, int] | None = None) -> None:  # noqa: B006
        self.ranks, self.order = ranks, order


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("{'b': 2, 'a': 1}", ""),
        ("{'a': 1, 'b': 3}", ":ranks={'a': 1, 'b': 3}"),
        ("{'a': 1}", ":ranks={'a': 1}"),
        ("['a', 'b']", ":ranks=['a', 'b']"),
        ("{}", ":ranks={}"),
    ],
)
def test_a_dict_is_a_default_with_all_its_values(given: str, kept: str) -> None:
    assert without_defaults(f"Spelled:ranks={given}", {"spelled": Spelled}) == f"Spelled{kept}"
    assert without_defaults("Spelled:order={}", {"spelled": Spelled}) == "Spelled"
    assert without_defaults("Spelled:order={'a': 1}", {"spelled": Spelled}) == "Spelled:order={'a': 1}"


@pytest.mark.parametrize("text", ["{[1]:2}", "[{[1]: 2}, 3]", "[" * 2000 + "]" * 2000], ids=["key", "within", "deep"])
def test_brackets_that_are_no_value_are_a_text(text: str) -> None:
    assert literal(f" {text}") == text
    assert without_defaults(f"CSVDataset:path={text}", known_classes(nn.dataset, AbsDataset)) == f"CSVDataset:path={text}"
    assert make_dataset(f"csv:path={text},label=y").argument("path") == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 1e-3),
        (" True", True),
        ("false", False),
        ("none", None),
        ("area", "area"),
        ("'1'", "1"),
        ("'\\t'", "\t"),
        ("../a b.csv", "../a b.csv"),
        ("[area, rooms]", ["area", "rooms"]),
        ("['a,b', 2, [x]]", ["a,b", 2, ["x"]]),
        ("{built: %d.%m.%Y}", {"built": "%d.%m.%Y"}),
        ("{0: 1.5}", {0: 1.5}),
        ("__import__('os').getpid()", "__import__('os').getpid()"),  # nothing is computed
        ("2 ** 8", "2 ** 8"),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert literal(text) == value


WORDS = [
    (named_parts.AssignmentName, named_parts.assignment, profiles, AbsBlockAssignment),
    (named_parts.CodecName, named_parts.codec, codecs, codecs.Codec),
    (named_parts.OptimizerName, named_parts.optimizer, nn.optimizer, IOptimizer),
    (named_parts.RuleName, named_parts.rule, nn.gradient_descent, IGradientDescent),
    (named_parts.SyncName, named_parts.sync, batch_sync, ISyncType),
]


def test_a_word_of_a_rule_need_not_be_a_short_form_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.gradient_descent, "WORDS", {**nn.gradient_descent.WORDS, "evolved": "LionOptimizer"})
    assert named_parts.rule("--gradient-descent", "Evolved") is nn.gradient_descent.LionOptimizer


@pytest.mark.parametrize(("name", "part", "package", "base"), WORDS)
def test_editors_know_the_words_that_are_taken(name: Any, part: Any, package: Any, base: Any) -> None:
    """Each stands for a part of its own, and every part that ships has one."""
    parts = {part("option", word) for word in typing.get_args(name)}
    # no word can say which rule another one holds
    known = {
        kind
        for kind in known_classes(package, base).values()
        if getattr(kind, "exchanges", True) and not issubclass(kind, WrappingRule)
    }
    # settings with a number have several words
    exported = [getattr(package, each) for each in package.__all__]
    settings = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, SyncSetting)} - {SyncSetting}
    lacking = sorted(kind.__name__ for kind in (known - parts) | (settings - set(map(type, parts))))
    assert not lacking, (
        f"add a word of {', '.join(lacking)} to the Literal that editors read, beside the names of {package.__name__}"
    )
    assert len(parts) == len(typing.get_args(name))


def test_commas_part_arguments_and_objects() -> None:
    text = "shuffle,augment:copies=2,flip=false,normalize:mean=[1,2],std=[1, 1],mod.py:T:a='x,y',none"
    assert split_objects(text) == [
        "shuffle", "augment:copies=2,flip=false", "normalize:mean=[1,2],std=[1, 1]", "mod.py:T:a='x,y'", "none",
    ]  # fmt: skip


def test_data_sets(tmp_path: Path) -> None:
    assert isinstance(make_dataset("digits"), Digits)
    path = tmp_path / "houses,old.csv"
    data = make_dataset(f"csv:path='{path}',label=2020,features=[area,rooms],delimiter=';',dates={{built: %Y}},missing=fill")
    assert isinstance(data, CSVDataset)
    assert (data.path, data.label, data.features) == (str(path), "2020", ["area", "rooms"])
    assert (data.delimiter, data.dates, data.missing) == (";", {"built": "%Y"}, "fill")
    assert isinstance(make_dataset("nn.dataset.NpzDataset:path=a.npz"), NpzDataset)
    assert isinstance(make_dataset("NPZ:path=a.npz,test_fraction=0.5"), NpzDataset)
    assert make_dataset("nn.dataset:SimData:kind=classification,samples=10").name == "simdata"


def test_a_class_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "own_rows.py").write_text(
        "import numpy as np\nfrom nn.dataset import AbsDataset\n"
        "class Rows(AbsDataset):\n"
        "    def __init__(self, count, **more):\n        self.count, self.more = count, more\n"
        "    def load(self, download=True):\n        return (np.ones((self.count, 1)), np.ones(self.count)) * 2\n"
    )
    made = make_dataset(f"{tmp_path}/own_rows.py:Rows:count=4,scale=1.5")
    assert len(made.load()[0]) == 4 and made.more == {"scale": 1.5}  # type: ignore[attr-defined]


def test_transforms() -> None:
    assert make_transform("none") is None
    made = make_transform("shuffle, imagecls:flatten=false,channels=true,augment:crop=0,normalize:per=all")
    assert made is not None
    assert [type(step) for step in made.steps] == [Shuffle, ImageCls, Augment, Normalize]
    assert made.steps[1].get_config() == {"flatten": False, "channels": True}
    assert np.shape(make_transform("ImageCls:flatten=False")(*Digits().load())[0]) == (1500, 8, 8)  # type: ignore[misc]


SYNTAX = "takes arguments as KEY=VALUE only, got"
CSV = "write csv:path=..,label=..$"
UNKNOWN = {  # data sets and transforms, and what is said of them
    "csv": f"--dataset csv: missing a required argument: 'path'; {CSV}",
    "csv:path=a": "missing a required argument: 'label'",
    "csv:path=a,lable=b": r"has no argument 'lable'; did you mean 'label'\? It takes path, label, features",
    "digits:size=3": "--dataset digits has no argument 'size'. It takes",
    "csv:path=a,label=b,c": "arguments must be KEY=VALUE with commas between them, got 'c'",
    "csv:path=a,path=b,label=c": "'path' must be given once",
    "csv:path=a,label=b,missing=dorp": "'missing' must be one of error, drop, nan, fill, got 'dorp'; did you",
    "digts": r"--dataset 'digts' is unknown; did you mean 'Digits'\? Known: CharacterText, CIFAR10",
    "array": "'array' is unknown.* Known: CharacterText, CIFAR10",
    "csv:houses.csv": f"--dataset csv {SYNTAX} 'houses.csv'; {CSV}",
    "csv:houses.csv,label=price": f"got 'houses.csv,label=price'; {CSV}",
    "CSV:": f"--dataset CSV {SYNTAX} ''; write CSV:path=..,label=..$",
    "npz:http://host/a.npz": "--dataset npz takes arguments as KEY=VALUE only",
    "cvs:path=a.csv,label=b": r"'cvs' is unknown; did you mean 'csv'\? Known: .*csv, .*Digits, .*npz",
    "cvs:a.csv": r"No module named 'cvs'; did you mean 'csv'\?",
    "imagecls:flaten=1": r"--transform imagecls has no argument 'flaten'; did you mean 'flatten'\?",
    "imagecls:flatten=1": "--transform imagecls: ImageCls 'flatten' must be True or False, got 1",
    "dirichlet": "--transform dirichlet: missing a required argument: 'alpha'; write dirichlet:alpha=..,blocks=..$",
    "shuffle:sed=3": "--transform shuffle has no argument 'sed'. It takes none$",
    "shuffle:3": f"shuffle {SYNTAX} '3'; write shuffle: it takes none$",
    "imagecls:false": "got 'false'; write imagecls or imagecls:flatten=..,channels=..$",
    "shuffle:imagecls": "cannot be followed by ':imagecls': several have commas between them; write shuffle,imagecls$",
    "shuffle:imagecls:flatten=false": "several have commas between them; write shuffle,imagecls",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_wrong_is_named(text: str) -> None:
    """With the syntax of a known name."""
    make: Any = make_transform if text.startswith(("image", "dirichlet", "shuffle")) else make_dataset
    with pytest.raises(UnknownName, match=UNKNOWN[text]):
        make(text)


def test_a_file_alone_leads_to_what_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownName, match="--dataset: houses cannot be imported"):
        make_dataset("houses.csv")
    (tmp_path / "houses.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnknownName, match=UNKNOWN["csv:houses.csv"]):
        make_dataset("houses.csv")


def test_a_module_may_have_a_known_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shuffle.py").write_text("from nn.dataset.transforms import Shuffle\nclass Own(Shuffle):\n    pass\n")
    assert "shuffle" not in sys.modules
    try:
        assert type(make_transform("shuffle:Own")).__name__ == "Own"
    finally:
        sys.modules.pop("shuffle", None)


@covers("SUB-46")
def test_an_error_in_code_of_ones_own_is_shown_with_its_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of Parallel-SGD are left out, and no traceback is shown where none is the user's."""
    monkeypatch.chdir(tmp_path)
    mlp().save("dnn.model")
    (tmp_path / "own_steps.py").write_text(
        "from nn.dataset.transforms import AbsTransformer\nclass Broken(AbsTransformer):\n"
        "    def __call__(self, a, b, c, d, seed=0):\n        return [1 / 0]\n"
    )
    given = ["-m", "dnn.model", "--workers", "worker.json", "--dataset", "digits"]
    (tmp_path / "worker.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    assert main([*given, "--transform", "imagecls,own_steps.py:Broken"]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "line 4, in __call__" in told and told.endswith(": division by zero\n")
    assert "parallel_sgd/" not in told and "abstract.py" not in told
    assert main([*given, "--transform", "none"]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "Traceback" not in told and "the transform ImageCls() makes images rows" in told


PLAIN = """
import sys
from parallel_sgd.options import named_parts

named_parts.optimizer("", "PSGDOptimizer")
named_parts.sync("", "SynchronizedSGD")
print([name for name in ("nn.keras_names", "parallel_sgd.batch_sync.sync.first") if name in sys.modules])
"""


def test_a_part_by_its_own_name_imports_no_others() -> None:
    """The record of each job asks for such names while its submitter waits: neither all forms nor names like it are needed."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_class_of_the_program_is_given_without_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a cell of a notebook: a text names classes of packages and files alone."""

    class HalfPrecision(codecs.Plain):
        """A codec of a notebook."""

    class Half:
        """No codec."""

    for kind in (HalfPrecision, Half):
        monkeypatch.setattr(sys.modules["__main__"], kind.__name__, kind, raising=False)
    job = parallel_sgd.ParallelSGD(mlp(), Digits(), ImageCls())
    with parallel_sgd.in_process(1) as nodes:
        for text, remedy in (
            ("halfprecision", "give it without quotes"),
            ("Half", "derive it from Codec, and give it without quotes"),
        ):
            with pytest.raises(UnknownName) as told:
                job.parallel(nodes, codec=text, verbose=0)
            assert str(told.value) == f"'codec' {text!r} is a class of this program: {remedy}"

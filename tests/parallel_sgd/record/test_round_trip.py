"""What a job says about itself can be read back: every value that an option takes, through `job.toml` and back."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nn
from nn.callback import Callback
from nn.dataset import SimData, transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from parallel_sgd import Clients, batch_sync, codec, in_process, profiles
from parallel_sgd.batch_sync import StaleSynchronous
from parallel_sgd.batch_sync.sync.interface import ISyncType
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.commands.options import make_dataset, make_transform
from parallel_sgd.federated import DirichletSplit, LogNormalSizes, PoissonSampler
from parallel_sgd.options.forms import Unnamed, object_text
from parallel_sgd.options.job_options import JobOptions, options
from parallel_sgd.options.make_spec import make_spec
from parallel_sgd.options.names import known_classes, literal, literal_text, split_objects
from parallel_sgd.options.spec import JobSpec
from parallel_sgd.profiles import FixedBlocks
from parallel_sgd.profiles.blockassignment.abstract import AbsBlockAssignment
from parallel_sgd.record.bounds import MOST_BLOCKS, MOST_EPOCHS, MOST_WORKERS
from parallel_sgd.record.files import JOB_FILE
from parallel_sgd.record.job_file import JobFile
from parallel_sgd.record.job_record import MODEL_FILE, job_text
from parallel_sgd.record.plain import decoded, encoded, toml_of
from parallel_sgd.writers import TensorBoardWriter
from rpc.submit import POLICIES

from .runs import model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

JOB = "20261120-173000-9f86d081"
NUMBERS = st.one_of(st.integers(-(1 << 70), 1 << 70), st.floats())
TEXTS = st.one_of(
    st.text(),
    st.sampled_from(["true", "none", "1", "0x1", "1_0", "a=b", "'", '"', "\\", "\x7f\r\n", "é\U0001f600", "[1]", "1e999"]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), NUMBERS, TEXTS, st.binary(max_size=4), st.sampled_from(["tuple", "pairs", "\ud800"])
)
KEYS = st.one_of(
    TEXTS, st.integers(), st.none(), st.sampled_from(["none", "tuple", "bytes", "pairs"]), st.tuples(st.integers(), TEXTS)
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)
FINITE = st.floats(0, allow_infinity=False)
CALLBACKS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "EarlyStopping": {
        "patience": st.integers(0, 9),
        "min_delta": st.floats(0, allow_infinity=False),
        "monitor": TEXTS.filter(bool),
    },
    "CSVLogger": {"path": st.sampled_from(["a.csv", 'b\'s "1",x=2.csv'])},
}


def classes(package: Any, base: Any) -> st.SearchStrategy[Any]:
    known = known_classes(package, base)
    return st.sampled_from(sorted(known)).map(known.__getitem__)


CODECS = classes(codec, Codec)
SYNC = st.one_of(
    classes(batch_sync, ISyncType), st.one_of(st.integers(0, MOST_BLOCKS), st.just(math.inf)).map(StaleSynchronous)
)
POSITIVE = st.floats(0, exclude_min=True, allow_infinity=False)


@st.composite
def callbacks(draw: st.DrawFn) -> list[Callback]:
    made = []
    for name in draw(st.lists(st.sampled_from(sorted(CALLBACKS)), max_size=2)):
        kind = getattr(nn.callback, name)
        given = {key: draw(values) for key, values in CALLBACKS[name].items()}
        try:
            made.append(kind(**given))
        except ValueError:
            continue
    return made


WRITERS = st.lists(st.sampled_from(["a", "b c", "d's"]).map(TensorBoardWriter), max_size=2)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "redundancy": st.integers(1, MOST_WORKERS),
    "block_size": st.integers(1, 1 << 31),
    "epoch": st.integers(1, MOST_EPOCHS),
    "assignment_type": st.one_of(classes(profiles, AbsBlockAssignment), st.integers(1, MOST_BLOCKS).map(FixedBlocks)),
    "sync_type": SYNC,
    "op_type": classes(nn.optimizer, nn.optimizer.IOptimizer).filter(lambda kind: kind.exchanges),
    "gd_type": classes(nn.gradient_descent, nn.gradient_descent.interface.IGradientDescent),
    "codec": st.one_of(st.none(), CODECS, st.dictionaries(st.one_of(st.integers(0, 99), TEXTS), CODECS, max_size=3)),
    "gd_params": st.one_of(st.lists(PLAIN, max_size=4).map(tuple), st.dictionaries(TEXTS, PLAIN, max_size=3)),
    "ps_codec": st.one_of(st.none(), CODECS),
    "network_bandwidth": POSITIVE,
    "mission_title": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 _+-]{0,20}[a-z]", fullmatch=True),
    "ssgd_timeout_limit": POSITIVE,
    "codec_extra_parameters": st.dictionaries(KEYS, PLAIN, max_size=3),
    "seed": st.integers(0, (1 << 63) - 1),
    "wait": FINITE,
    "blas_threads": st.one_of(st.just("auto"), st.integers(1, 1 << 40)),
    "bits": st.sampled_from([None, "portable"]),
    "on_failure": st.sampled_from([None, *POLICIES]),
    "max_restarts": st.integers(0, 1_000_000),
    "stall_timeout": st.one_of(st.none(), st.floats(1, 1e6)),
    "min_workers": st.one_of(st.none(), st.integers(1, MOST_WORKERS)),
    "max_workers": st.one_of(st.none(), st.integers(1, MOST_WORKERS)),
    "discovery": st.one_of(st.none(), st.sampled_from(["launcher", "nowhere.sh"])),
    "fault": st.sampled_from(["", "kill 1@e1.b3; stop 2@e1.b5 for 4s; +500ms 0>1"]),
    "checkpoint_every": st.one_of(st.none(), st.sampled_from(["epoch", "auto", "30s"]), st.integers(1, 1 << 50)),
    "keep_every": st.one_of(st.none(), st.integers(1, MOST_EPOCHS)),
    "commit_every": st.integers(1, 1 << 50),
    "resume": st.none(),  # which has its text from where it was found
    "keep_data": FINITE,
    "sign": st.none(),  # left out: the key is the user's own
    "clients": st.one_of(
        st.none(),
        st.builds(
            Clients,
            st.integers(2, 999),
            st.one_of(st.integers(1, 2), st.floats(0.1, 1).map(PoissonSampler)),
            st.one_of(st.none(), st.floats(0.1, 9).map(DirichletSplit)),
            st.one_of(st.none(), st.floats(0.1, 9).map(LogNormalSizes)),
            st.one_of(st.none(), st.just(nn.gradient_descent.ADAMOptimizer(0.01, beta2=0.99))),
            st.integers(1, 99),
            st.one_of(st.none(), st.integers(1, 99)),
            st.sampled_from(["samples", "equal", "steps"]),
            st.floats(0, 9),
            st.booleans(),
            st.one_of(st.just("dense_1"), st.lists(st.sampled_from(["dense_1", "dense_2/kernel"]), max_size=2)),
        ),
    ),
    "class_weight": st.one_of(
        st.none(), st.dictionaries(st.integers(-(1 << 70), 1 << 70), st.floats(0, allow_infinity=False), max_size=3)
    ),
    "callbacks": callbacks(),
    "writers": WRITERS if find_spec("tensorboardX") else st.just([]),
}
FLAGGED = {name: about for name, about in options() if about.flag is not None}
# a switch has no other values
VALUES |= {each.name: st.booleans() for each in fields(JobOptions) if each.name in FLAGGED and each.type == "bool"}
DEFAULTS = {each.name: each.default for each in fields(JobOptions)}


@pytest.fixture(scope="module")
def base() -> Iterator[JobSpec]:
    with in_process(2) as nodes:
        yield make_spec(model(), SimData(), None, JobOptions(nodes))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, base: JobSpec) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "P-SGD-1"
    folder.mkdir()
    (folder / MODEL_FILE).write_bytes(base.model.to_bytes())
    return folder


UNNAMED = object()


def told(spec: JobSpec, place: Path, name: str, value: Any) -> Any:
    """The value of an option after a job with it was written down and read; UNNAMED if the file says that it has none."""
    given = replace(spec, asked=replace(spec.asked, **{name: value}))
    given = replace(given, plan=replace(spec.plan, options=replace(spec.options, **{name: value})))
    given = replace(given, asked=replace(spec.asked, **{name: value}))
    (place / JOB_FILE).write_text(job_text(given, JOB, place), "utf-8")
    file = JobFile.read(place)
    if name in file.unnamed:
        return UNNAMED
    about = FLAGGED[name]
    if name not in file.options:
        return about.form.read(
            about.flag.names[0], {**about.form.settings, **about.flag.settings}.get("default", DEFAULTS[name])
        )
    return about.form.read(about.flag.names[0], file.options[name])


def shown(value: Any) -> Any:
    """Equal for equal values: for all that has no equality of its own by what it was made of."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shown, value)]
    if isinstance(value, Callback):
        return type(value), shown(value.get_config())
    if isinstance(value, TensorBoardWriter):
        return type(value), str(value.directory)
    return repr(value)


def has_no_text(value: Any) -> bool:
    """Whether no TOML can hold the value: text that is no Unicode."""
    try:
        str(value).encode()
        repr(value).encode()
    except UnicodeEncodeError:
        return True
    return "\\ud" in repr(value) or any("\ud7ff" < each < "\ue000" for each in repr(value))


def test_every_option_with_a_flag_has_values_here() -> None:
    lacking = ", ".join(FLAGGED.keys() - VALUES.keys())
    assert not lacking, f"add a strategy for the values of {lacking} to VALUES in tests/parallel_sgd/record/test_round_trip.py"
    assert VALUES.keys() == FLAGGED.keys()


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.share(9)
def test_what_an_option_takes_is_read_back(name: str, base: JobSpec, place: Path) -> None:
    @settings(max_examples=60, deadline=None)
    @given(VALUES[name])
    def check(value: Any) -> None:
        found = told(base, place, name, value)
        if found is UNNAMED:
            named = any(isinstance(key, str) and key.isdecimal() for key in value) if isinstance(value, dict) else False
            assert has_no_text(value) or (named and name == "codec"), value
        elif name in ("class_weight", "codec") and not value:
            assert not found
        elif name in ("callbacks", "writers"):
            assert shown(list(found)) == shown(list(value))
        else:
            check_of = FLAGGED[name].check if name == "checkpoint_every" else lambda _, each: each
            assert shown(check_of(name, found)) == shown(check_of(name, value))

    check()


PARAMETERS: list[Any] = [
    (1.0, 0.0, None, 0.5),
    (None,),
    ({"none": True},),
    ((1, (2,)), [3]),
    {"none": 1},
    {"betas": (0.9, 0.99)},
]


@pytest.mark.parametrize("parameters", [*PARAMETERS, (math.inf, -0.0)])
def test_parameters_of_a_rule_that_once_ended_in_an_error(parameters: Any, base: JobSpec, place: Path) -> None:
    assert shown(told(base, place, "gd_params", parameters)) == shown(parameters)


@settings(max_examples=300, deadline=None)
@given(PLAIN)
@example({"pairs": 1})
@example({"tuple": [1]})
@example({(1, "a"): None})
def test_plain_data_is_read_back_from_toml(value: Any) -> None:
    try:
        text = toml_of(encoded(value))
    except Unnamed:
        assert has_no_text(value)
        return
    assert shown(decoded(tomllib.loads(f"x = {text}")["x"])) == shown(value)


LITERALS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(TEXTS, inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LITERALS, min_size=1, max_size=3))
def test_arguments_of_objects_are_read_back(values: list[Any]) -> None:
    """Also where several objects stand in one text, with commas between them and in their arguments."""
    texts = [f"Name:a={literal_text(value)}" for value in values]
    assert split_objects(",".join(texts)) == texts
    assert [repr(literal(text.removeprefix("Name:a="))) for text in texts] == list(map(repr, values))


def _needs_nothing(kind: Any) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return all(each.default is not each.empty or each.kind is each.VAR_KEYWORD for each in parameters)


MADE = [kind() for kind in known_classes(transforms, AbsTransformer).values() if _needs_nothing(kind)]


@pytest.mark.parametrize(
    "made", [*MADE, SimData(samples=8, features=2, classes=2, noise=0.25)], ids=lambda made: type(made).__name__
)
def test_data_sets_and_transforms_are_read_back(made: AbsDataset | AbsTransformer, tmp_path: Path) -> None:
    text = object_text(type(made), made.get_config(), str)
    read = make_dataset(text) if isinstance(made, AbsDataset) else make_transform(text)
    assert read is not None and type(read) is type(made) and repr(read.get_config()) == repr(made.get_config())

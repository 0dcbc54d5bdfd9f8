"""SEC-13: a forged, damaged or foreign file gives a clean error, runs nothing, and costs no more memory than it has."""

import io
import json
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors import numpy as reference

from nn.tensor_files import MAX_HEADER, ModelFileError, dump, parse

from ..statements import covers

MUTANTS = 10_000
MEMORY = 64 << 20  # bytes; a header of 1 MiB of JSON brackets takes most of it


def sealed():
    tensors = {
        "dense_1/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
        "dense_1/bias": np.zeros(3, np.float32),
        "step": np.array(3),
        "mask": np.array([True, False]),
    }
    return dump(tensors, {"format": "psgd.model/1", "config": '{"layers":[]}'})


def assembled(header, body=b""):
    """A file with this header, as text or as an object, and no hash."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + body


def entry(shape, end, begin=0, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture(autouse=True)
def nothing_runs_and_memory_is_bounded():
    modules = set(sys.modules)
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(sys.modules) == modules
    assert peak < MEMORY


class Payload:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


@covers("SEC-13")
def test_pickles_do_not_run(tmp_path):
    """Pickle bytes, alone and behind a plausible length."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(Payload(tmp_path / "marker"), protocol)
        for file in (data, struct.pack("<Q", len(data)) + data, assembled(data, data)):
            with pytest.raises(ModelFileError):
                parse(file)
    assert not (tmp_path / "marker").exists()


@covers("SEC-13")
def test_npz_bomb():
    """a small archive that would unpack to 32 MiB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        for _ in range(32):
            file.write(bytes(1 << 20))
    with pytest.raises(ModelFileError, match="the header must fit in the file"):
        parse(buffer.getvalue())


@covers("SEC-13")
@pytest.mark.parametrize(
    "join",
    [
        lambda file, zipped: file + zipped,
        lambda file, zipped: zipped + file,
        lambda file, zipped: assembled(file[8:] + zipped),
        lambda file, zipped: assembled(b"{}" + zipped + b"{}"),
        lambda file, zipped: assembled(b"{}\n" + b" " * 8),
        lambda file, zipped: assembled(b"\xef\xbb\xbf{}"),
        lambda file, zipped: assembled(b"<html>{}"),
        lambda file, zipped: assembled(b"{}", zipped),
    ],
)
def test_polyglots(join):
    """a file that is also an archive or a page."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", b"data")
    with pytest.raises(ModelFileError):
        parse(join(sealed(), buffer.getvalue()))


@covers("SEC-13")
@pytest.mark.parametrize(
    "shape",
    [[8 << 30], [1 << 31, 1 << 31], [0, 1 << 62], [10**4000], [0] + [1 << 40] * 31, [1] * 33, [-1], [-2, -2], [1.0], [True]],
)
def test_absurd_shapes(shape):
    """32 GiB and worse, with honest and with small offsets."""
    size = 4
    for axis in shape:
        size *= int(axis)
    for end in (0, 4, 16, size):
        for body in (b"", bytes(4), bytes(16)):
            with pytest.raises(ModelFileError):
                parse(assembled({"a": entry(shape, end)}, body))


@covers("SEC-13")
@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b'{"a":' + json.dumps(entry([1], 4)).encode() + b',"a":' + json.dumps(entry([1], 4)).encode() + b"}", "duplicate"),
        (b'{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "duplicate"),
        (b'{"__metadata__":{"a":"1","a":"2"},"a":' + json.dumps(entry([1], 4)).encode() + b"}", "duplicate"),
        ({"a": entry([2], 8)}, "must fill the file: they take 8 bytes, the file has 4"),
        ({"a": entry([0], 0)}, "must fill the file: they take 0 bytes, the file has 4"),
        ({"a": entry([1], 4), "b": entry([1], 4)}, "'b' overlaps"),
        ({"a": entry([1], 8, 4)}, "'a' leaves a hole"),
        ({"a": entry([1], 4, dtype="F128")}, "must have one of the dtypes BOOL, .*, got 'F128'"),
        ({"a": entry([1], 4, dtype=["F32"])}, "must have one of the dtypes"),
        ({"a": entry([2, 2], 4, dtype="BOOL")}, "BOOL but holds bytes other than 0 and 1"),
        ({"a": entry([1], 0, 4)}, "do not fit shape"),
        ({"a": {**entry([1], 4), "extra": 1}}, "and nothing else"),
        ({"a": {"dtype": "F32", "shape": [1]}}, "must have dtype, shape and data_offsets"),
        ({"a": entry([1], 4)["shape"]}, "must have dtype, shape and data_offsets"),
        ({"a": {**entry([1], 4), "data_offsets": [0, 4, 4]}}, r"must have data_offsets \[begin, end\]"),
        ({"a": {**entry([1], 4), "data_offsets": [0, 4.0]}}, r"must have data_offsets \[begin, end\]"),
        ({"a": {**entry([1], 4), "data_offsets": "04"}}, r"must have data_offsets \[begin, end\]"),
        ({"a": {**entry([1], 4), "shape": {"1": 1}}}, "must have a shape"),
        ({"__metadata__": ["a"], "a": entry([1], 4)}, "must be an object of strings"),
        ({"__metadata__": {"a": 1}, "a": entry([1], 4)}, "'a' must be a string, got 1"),
        ({"__metadata__": {"a": None}, "a": entry([1], 4)}, "'a' must be a string"),
        (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', "NaN, which is not JSON"),
        (b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}', "not valid JSON"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not valid JSON"),
        (b'{"\\ud800":1}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid JSON"),
        (b'{"a":1} {}', "not valid JSON"),
        (b"[1]", "must be a JSON object"),
        (b"", "must be a JSON object"),
        (b"{" + b'"":[],' * 100_000 + b"}", "not valid JSON"),
    ],
)
def test_every_rule_of_the_reader(header, text):
    """Duplicates, holes, overlaps, unknown fields and dtypes, and JSON that is none."""
    with pytest.raises(ModelFileError, match=text):
        parse(assembled(header, bytes([2, 2, 2, 2])))


@covers("SEC-13")
@pytest.mark.parametrize("length", [MAX_HEADER + 1, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_a_claimed_header_length_is_not_believed(length):
    """Sizes are compared with the file before anything else."""
    with pytest.raises(ModelFileError, match=f"it claims {length}"):
        parse(struct.pack("<Q", length) + b"{}")


@covers("SEC-13")
def test_a_header_above_its_limit_is_not_even_parsed():
    """Header <= 1 MiB, also where the file is long enough."""
    assert parse(assembled(b"{}" + b" " * (MAX_HEADER - 2))) == ({}, {})
    with pytest.raises(ModelFileError, match=r"the header must fit in the file .* and in 1048576 bytes"):
        parse(assembled(b"{}" + b" " * (MAX_HEADER - 1)))


@covers("SEC-17")
def test_a_name_from_the_file_cannot_write_to_the_terminal():
    """Control characters are escaped, long names are cut."""
    name = "\x1b[2J\n" + "x" * 10_000
    with pytest.raises(ModelFileError) as caught:
        parse(assembled({name: 1}))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@covers("SEC-13")
def test_truncated_at_every_place():
    """No prefix of a file is a file."""
    data = sealed()
    for length in range(len(data)):
        with pytest.raises(ModelFileError):
            parse(data[:length])


@covers("SEC-13")
def test_every_single_bit_counts():
    """Whichever bit of length, header or data flips, the file is refused."""
    data = bytearray(sealed())
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(ModelFileError):
                parse(data)
            data[position] ^= 1 << bit
    parse(data)


def mutate(data, chance):
    """Return a damaged copy: bytes changed, removed, doubled, numbers exchanged, or the length field replaced."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 40)]
            case 3:
                data[at : at + 1] = chance.choice([b"0", b"9", b"-1", b'"', b"{", b"]", b",", b"1e9", b"null", b"\0"])
            case 4:
                data[:8] = struct.pack("<Q", chance.choice([0, 2, len(data) - 8, len(data), 1 << 40]))
            case _:
                text = chance.choice([b"F32", b"BOOL", b"I64", b"shape", b"4", b"12", b"[", b"dense"])
                data = data.replace(text, chance.choice([b"U8", b"F64", b"[]", b"99999999999", b"dense", b""]), 1)
    return bytes(data)


@covers("SEC-13")
def test_seeded_mutants():
    """Thousands of damaged files; sealed ones are all refused, others give arrays within the file or the error."""
    chance = random.Random(13)
    own = sealed()
    foreign = reference.save({"dense": np.ones((2, 3), np.float32), "b": np.zeros(4, bool)}, metadata={"format": "np"})
    accepted = refused = 0
    for original in (own, foreign):
        for _ in range(MUTANTS // 2):
            data = mutate(original, chance)
            if data == original:
                continue
            try:
                tensors, _ = parse(data)
            except ModelFileError:
                refused += 1
                continue
            accepted += 1
            assert original is foreign
            assert sum(array.nbytes for array in tensors.values()) <= len(data)
    assert refused > 0.8 * MUTANTS
    assert accepted > 0

"""The tensor file: what is written is read back, and the safetensors library agrees with both directions."""

import hashlib
import json
import struct

import numpy as np
import pytest
import safetensors
from safetensors import numpy as reference

from nn.tensor_files import MAX_HEADER, ModelFileError, dump, parse

DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]


def header_of(data):
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length])


def equal(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.fixture
def tensors():
    random = np.random.default_rng(3)
    return {
        "dense_1/kernel": random.normal(size=(5, 3)).astype(np.float32),
        "step": np.array(7, dtype=np.int64),
        "mask": np.array([True, False, True]),
        "empty": np.zeros((0, 4), dtype=np.float16),
        "größe": random.normal(size=2),
    }


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4)])
def test_every_dtype_and_shape_comes_back(code, shape):
    """Section 7: a 0-d array stays 0-d."""
    array = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(code)
    read, _ = parse(dump({"a": array}, {}))
    assert equal(read["a"], array)


def test_names_keep_their_order_and_metadata_its_text(tensors):
    read, metadata = parse(dump(tensors, {"config": '{"layers": ["é", "\\n"]}', "format": "psgd.model/1"}))
    assert list(read) == list(tensors)
    assert all(equal(read[name], tensors[name]) for name in tensors)
    assert metadata["config"] == '{"layers": ["é", "\\n"]}'
    assert metadata["format"] == "psgd.model/1"


def test_layout_and_byte_order_of_the_input_do_not_matter():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for other in (np.asfortranarray(array), array.astype(">i4"), np.repeat(array, 2, axis=1)[:, ::2]):
        assert dump({"a": other}, {}) == dump({"a": array}, {})


def test_parse_copies_nothing_and_its_arrays_cannot_be_written(tensors):
    data = bytearray(dump(tensors, {}))
    read, _ = parse(data)
    kernel = read["dense_1/kernel"]
    assert np.shares_memory(kernel, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        kernel[0, 0] = 1


def test_every_array_starts_at_a_multiple_of_its_item_size(tensors):
    data = dump(tensors, {})
    assert (8 + struct.unpack_from("<Q", data)[0]) % 8 == 0
    read, _ = parse(data)
    assert all(array.flags.aligned for array in read.values())


def test_the_safetensors_library_opens_what_we_write(tensors, tmp_path):
    """Section 7: the real library opens the file and reads the configuration."""
    data = dump(tensors, {"format": "psgd.model/1", "config": "{}"})
    read = reference.load(data)
    assert read.keys() == tensors.keys()
    assert all(equal(read[name], tensors[name]) for name in tensors)
    path = tmp_path / "a.model"
    path.write_bytes(data)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata()["config"] == "{}"
        assert equal(file.get_tensor("step"), tensors["step"])


def test_we_open_what_the_safetensors_library_writes(tensors):
    read, metadata = parse(reference.save(tensors, metadata={"format": "np"}))
    assert metadata == {"format": "np"}
    assert all(equal(read[name], tensors[name]) for name in tensors)
    assert parse(reference.save({"a": np.ones(2)}))[1] == {}


def test_no_tensors_at_all_is_a_file_too():
    assert parse(dump({}, {"config": "{}"}))[0] == {}


def test_the_hash_is_that_of_the_file_with_the_field_zeroed(tensors):
    data = dump(tensors, {})
    found = header_of(data)["__metadata__"]["sha256"]
    assert data.count(found.encode()) == 1
    assert hashlib.sha256(data.replace(found.encode(), b"0" * 64)).hexdigest() == found


def test_a_field_that_only_looks_like_the_hash_misleads_nobody(tensors):
    metadata = {"config": '"sha256":"' + "0" * 64 + '"', 'x"sha256': "0" * 64}
    read, found = parse(dump({**tensors, '"sha256":"': np.ones(1)}, metadata))
    assert found["config"] == metadata["config"]
    assert '"sha256":"' in read


def test_our_own_format_needs_its_hash():
    data = reference.save({"a": np.ones(2)}, metadata={"format": "psgd.model/1"})
    with pytest.raises(ModelFileError, match=r"format 'psgd.model/1' must carry its sha256"):
        parse(data)


def test_a_hash_elsewhere_in_the_header_is_not_accepted():
    header = json.dumps({"__metadata__": {"format": "np", "sha256": "0" * 64}}).encode()
    with pytest.raises(ModelFileError, match="sha256 of the file must be the first field of its header"):
        parse(struct.pack("<Q", len(header)) + header)


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "text"),
    [
        ({"a": np.array([object()])}, {}, TypeError, r"tensor 'a' must be one of BOOL, .* got dtype object"),
        ({"a": np.array(["x"])}, {}, TypeError, r"got dtype <U1"),
        ({"a": np.ones(1, np.complex128)}, {}, TypeError, r"got dtype complex128"),
        ({"__metadata__": np.ones(1)}, {}, ValueError, r"'__metadata__', it is reserved"),
        ({}, {"sha256": "0"}, ValueError, r"metadata key 'sha256'"),
        ({}, {"a": 1}, TypeError, r"metadata must map str to str, got 'a': int"),
        ({}, {"a": "x" * MAX_HEADER}, ValueError, r"the header must fit in 1048576 bytes, got 10\d+"),
        ({"\ud800": np.ones(1)}, {}, ValueError, r"surrogates not allowed"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(tensors, metadata, error, text):
    with pytest.raises(error, match=text):
        dump(tensors, metadata)

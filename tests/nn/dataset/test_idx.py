"""IDX files: every type of the format, and everything that can be wrong with one."""

import gzip
import tracemalloc

import numpy as np
import pytest

from nn.dataset.idx import read_idx

from .idx_files import CODES, idx

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_every_type_of_the_format(code, packed, tmp_path):
    array = (np.arange(24).reshape(2, 3, 4) - (0 if code == "u1" else 7)).astype(code)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    read = read_idx(path)
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)


def test_no_samples_and_one_axis(tmp_path):
    for array in (np.zeros((0, 3), np.uint8), np.zeros(5, np.uint8)):
        (tmp_path / "a").write_bytes(idx(array))
        assert read_idx(str(tmp_path / "a")).shape == array.shape


PACKED = gzip.compress(idx(ARRAY), mtime=0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not an IDX file: it begins with the bytes $"),
        (b"PK\x03\x04" + bytes(50), "begins with the bytes 50 4b 03 04"),
        (b"\0\0\x0a\x01" + bytes(50), "is not an IDX file"),
        (b"\0\0\x08\x00" + bytes(50), "is not an IDX file"),
        (b"\0\0\x08\xff" + bytes(2000), "is not an IDX file"),
        (idx(ARRAY)[:10], "ends within its header"),
        (idx(ARRAY)[:-1], r"must hold 24 bytes of values for its shape \(2, 3, 4\), it has only 23"),
        (idx(ARRAY) + b"x", r"must hold 24 bytes .* it has more"),
        (b"\0\0\x08\x02" + b"\xff" * 8, "must hold at most 2147483648 bytes of values"),
        (gzip.compress(idx(ARRAY)[:-1], mtime=0), "it has only 23"),
        (PACKED[:-1], "is a damaged gzip file"),
        (PACKED[:20], "is a damaged gzip file"),
        (PACKED[:-8] + bytes(8), "is a damaged gzip file: CRC check failed"),
        (PACKED[:10] + b"\xff" * 20, "is a damaged gzip file"),
        (b"\x1f\x8bxx", "is a damaged gzip file"),
    ],
)
def test_a_damaged_file_is_named(content, text, tmp_path):
    (tmp_path / "a.idx").write_bytes(content)
    with pytest.raises(ValueError, match=f"a.idx.*{text}"):
        read_idx(tmp_path / "a.idx")


def test_memory_follows_the_file_and_not_its_header(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\x08\x01\x7f\xff\xff\xff" + bytes(100))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x64" + bytes(32 << 20)))
    tracemalloc.start()
    for name in ("a", "bomb.gz"):
        with pytest.raises(ValueError, match="bytes of values"):
            read_idx(tmp_path / name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20

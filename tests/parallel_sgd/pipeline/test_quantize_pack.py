"""Codes in bytes, and buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_sgd.codec.pipeline.quantize.quantizer import (  # fmt: skip
    code_table,
    holds_zero,
    pack,
    pack_flags,
    packed_size,
    two_planes,
    unpack,
)
from parallel_sgd.codec.pipeline.quantize.rounding import groups

EVERY_BYTE = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_pack_and_unpack_are_inverse_for_all_bytes(bits: int) -> None:
    codes = np.empty(256 * 8 // bits, np.float32)
    unpack(EVERY_BYTE, code_table(np.arange(1 << bits), bits), codes)
    assert (codes < 1 << bits).all()
    again = np.empty(256, np.uint8)
    pack(codes.astype(np.uint8), bits, again)
    np.testing.assert_array_equal(again, EVERY_BYTE)


def test_flags_and_back_for_all_bytes() -> None:
    flags = np.empty(2048, np.float32)
    unpack(EVERY_BYTE, code_table(np.arange(2), 1), flags)
    again = np.empty(256, np.uint8)
    pack_flags(flags > 0, again)
    np.testing.assert_array_equal(again, EVERY_BYTE)


def test_two_planes_for_all_pairs_of_bytes() -> None:
    first, second = np.repeat(EVERY_BYTE, 256), np.tile(EVERY_BYTE, 256)
    pairs = two_planes(first, second)
    np.testing.assert_array_equal(pairs[0::2], first % 16 + 16 * (second % 16))
    np.testing.assert_array_equal(pairs[1::2], first // 16 + second // 16 * 16)


@settings(max_examples=80, deadline=None, database=None)
@given(bits=st.sampled_from([2, 4, 8]), n=st.integers(1, 300), data=st.data())
def test_any_number_of_codes(bits: int, n: int, data: st.DataObject) -> None:
    codes = np.array(data.draw(st.lists(st.integers(1, (1 << bits) - 1), min_size=n, max_size=n)), np.uint8)
    padded = np.full(-(-n // 8) * 8, 1, np.uint8)
    padded[:n] = codes
    packed = np.empty(packed_size(n, bits), np.uint8)
    pack(padded, bits, packed)
    assert not holds_zero(packed, bits)
    out = np.empty(n, np.float32)
    unpack(packed, code_table(np.arange(1 << bits), bits), out)
    np.testing.assert_array_equal(out, codes)
    place = data.draw(st.integers(0, n - 1))
    packed[place * bits // 8] &= ~np.uint8(((1 << bits) - 1) << place * bits % 8)
    assert holds_zero(packed, bits)


@settings(max_examples=200, deadline=None, database=None)
@given(n=st.integers(0, 400_000), width=st.integers(1, 200_000) | st.sampled_from([8, 512, 4096, 65536]))
def test_groups_cover_every_element_once(n: int, width: int) -> None:
    at, bucket = 0, 0
    for group in groups(n, width):
        assert (group.place.start, group.scales.start) == (at, bucket)
        assert group.width == width or (group.rows == 1 and group.place.stop == n)
        stop = at
        for piece, shape in group.pieces():
            assert piece.start == stop
            assert piece.stop - piece.start == shape[0] * shape[1] <= 65536
            assert shape[0] in (1, group.rows)
            stop = piece.stop
        assert stop == group.place.stop
        at, bucket = stop, group.scales.stop
    assert at == n
    assert bucket == -(-n // width)

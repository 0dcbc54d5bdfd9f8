"""What travels between two stages: keys by a hash that no process changes, sorted runs as arrays; and what processes keep."""

from __future__ import annotations

import enum
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from executor import process_setup
from executor.parallel import Context
from executor.parallel.shuffle import SortPartition, stable_hash

from .test_collection import keys


class Color(enum.Enum):
    RED = 1


@given(keys, keys)
def test_equal_keys_have_equal_hashes(a: Any, b: Any) -> None:
    """1, 1.0 and True are one key, as in a dict."""
    assert stable_hash(1) == stable_hash(1.0) == stable_hash(True) == stable_hash(np.int8(1))
    if a == b:
        assert stable_hash(a) == stable_hash(b)


def test_hashes_do_not_depend_on_the_process() -> None:
    """Known values: those of str and bytes are CRC-32, which no seed changes."""
    assert stable_hash("abc") == stable_hash(b"abc") == 0x352441C2
    assert stable_hash((1, "abc")) == ((2 * 1_000_003 ^ 1) * 1_000_003 ^ 0x352441C2) & (2**64 - 1)
    assert stable_hash(Color.RED) == zlib.crc32(b"Color.RED")


def test_sorted_runs_travel_without_an_object_for_each_number() -> None:
    """Arrays of keys and of elements; where the elements are the keys, once."""
    (numbers,) = SortPartition(None, False)(0, [3, 1, 2])
    np.testing.assert_array_equal(numbers, np.array([1, 2, 3]))
    keys, elements = SortPartition(abs, True)(0, [1.0, -2.0])
    assert isinstance(keys, np.ndarray)
    np.testing.assert_array_equal(elements, [-2.0, 1.0])
    assert SortPartition(None, False)(0, [1 << 70, 2]) == [[2, 1 << 70]]
    assert SortPartition(None, False)(0, [True, 2]) == [[True, 2]]


@pytest.mark.processes
def test_processes_of_a_pool_free_a_broadcast_value(on_processes: Context) -> None:
    """After unpersist, with the next task that they get; other values stay."""
    values = [on_processes.broadcast(np.zeros(10)) for _ in range(2)]
    numbers = on_processes.parallelize(range(8), 8)
    assert numbers.map(lambda _: len(values[0].value) + len(values[1].value)).collect() == [20] * 8
    values[0].unpersist()
    assert set(numbers.map(lambda _: len(process_setup._held_files())).collect()) <= {0, 1}
    values[1].unpersist()
    assert numbers.map(lambda _: len(process_setup._held_files())).collect() == [0] * 8

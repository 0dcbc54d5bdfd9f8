"""The checksum tells data sets apart by everything that matters and by nothing else."""

import numpy as np
import pytest

from nn.dataset import AbsDataset, checksum_of

A = np.arange(6, dtype=np.int32)


def test_dtype_shape_values_and_order_count():
    variants = [
        [A],
        [A, A],
        [A.reshape(2, 3)],
        [A.reshape(3, 2)],
        [A.astype(np.uint32)],
        [A.view(np.float32)],
        [A + 1],
        [A[:3], A[3:]],
        [A[3:], A[:3]],
        [A[:0], A],
        [],
    ]
    assert len({checksum_of(variant) for variant in variants}) == len(variants)


def test_memory_layout_and_byte_order_do_not_count():
    matrix = A.reshape(2, 3)
    for other in (np.asfortranarray(matrix), matrix.astype(">i4"), np.repeat(matrix, 2, axis=0)[::2]):
        assert checksum_of([other]) == checksum_of([matrix])
    assert checksum_of([np.array(True), np.zeros((0, 2))]) == checksum_of([np.array(True), np.zeros((0, 2))])


def test_objects_have_no_checksum():
    with pytest.raises(TypeError, match="checksum_of needs arrays of numbers, got dtype object"):
        checksum_of([np.array([object()])])


def test_a_data_set_is_loaded_once_for_its_checksum():
    class Counted(AbsDataset):
        loads = 0

        def load(self, download=True):
            self.loads += 1
            return A, A, A, A

    data = Counted()
    assert data.checksum() == data.checksum() == checksum_of([A, A, A, A])
    assert data.loads == 1
    assert data.name == "counted"

"""The embedded digits are the published ones, scaled, in their order."""

from pathlib import Path

import numpy as np

import nn.dataset
from nn.dataset import Digits

FOLDER = Path(nn.dataset.__file__).parent


def test_split_and_types():
    """Conventions: uint8 0..255, 1,500 / 297."""
    train_x, train_y, test_x, test_y = Digits().load()
    assert train_x.shape == (1500, 8, 8)
    assert train_y.shape == (1500,)
    assert test_x.shape == (297, 8, 8)
    assert test_y.shape == (297,)
    assert {array.dtype for array in (train_x, train_y, test_x, test_y)} == {np.dtype(np.uint8)}
    assert (train_x.min(), train_x.max()) == (0, 255)


def test_the_content_never_changes():
    assert Digits().checksum() == "f5f7554ec88c3b251ac863ec5176291a23734fe5c7766507dc98f853377bb762"


def test_the_file_is_small_and_its_licence_is_beside_it():
    assert (FOLDER / "digits.npz").stat().st_size < 64 << 10
    licence = (FOLDER / "DIGITS-LICENCE.md").read_text()
    for needed in ("CC BY 4.0", "E. Alpaydin", "10.24432/C50P49", "Changes:"):
        assert needed in licence

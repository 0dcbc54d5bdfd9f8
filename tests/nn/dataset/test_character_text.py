"""Text as a data set: which characters stand where, and what can be wrong."""

import numpy as np
import pytest

from nn.dataset import CharacterText

TEXT = "the cat sat on the mat; ça va, café? 漢字 🙂 the end of it all"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    return tmp_path / "a.txt"


def decode(data, ids):
    return "".join(data.vocabulary[each] for each in ids)


def test_labels_are_what_follows(path):
    data = CharacterText(path, length=5, test_fraction=0.25)
    train_x, train_y, test_x, test_y = data.load()
    assert data.vocabulary == "".join(sorted(set(TEXT)))
    assert {array.dtype for array in (train_x, train_y, test_x, test_y)} == {np.dtype(np.int32)}
    border = len(TEXT) - round(len(TEXT) / 4)
    for x, y, part in ((train_x, train_y, TEXT[:border]), (test_x, test_y, TEXT[border:])):
        assert len(x) == (len(part) - 1) // 5
        for row in range(len(x)):
            assert decode(data, x[row]) == part[5 * row : 5 * row + 5]
            assert decode(data, y[row]) == part[5 * row + 1 : 5 * row + 6]


def test_windows_to_train_on_may_overlap(path):
    apart, close = CharacterText(path, length=5, stride=5), CharacterText(path, length=5, stride=2)
    assert len(close.load()[0]) > 2 * len(apart.load()[0])
    assert np.array_equal(close.load()[0][::5], CharacterText(path, length=5, stride=10).load()[0])
    assert all(np.array_equal(one, other) for one, other in zip(apart.load()[2:], close.load()[2:], strict=True))


def test_several_files_are_one_text(path, tmp_path):
    (tmp_path / "b.txt").write_text("zzz", "utf-8")
    data = CharacterText([path, tmp_path / "b.txt"], length=5)
    assert data.text() == TEXT + "zzz"
    assert CharacterText(**data.get_config()).checksum() == data.checksum() != CharacterText(path, length=5).checksum()


def test_texts_are_encoded_and_strange_characters_named(path):
    data = CharacterText(path)
    assert decode(data, data.encode("café 漢🙂")) == "café 漢🙂"
    assert data.encode("").shape == (0,)
    with pytest.raises(ValueError, match=r"CharacterText: 'Z' is no character of the files, which have ' ,;"):
        data.encode("catZ")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"path": []}, ValueError, "'path' must name at least one file, got none"),
        ({"length": 0}, ValueError, "'length' must be a positive integer, got 0"),
        ({"stride": 0}, ValueError, "'stride' must be a positive integer, got 0"),
        ({"test_fraction": 1}, ValueError, "'test_fraction' must be a number > 0 and < 1, got 1"),
        ({"path": "nowhere.txt"}, FileNotFoundError, "CharacterText finds no file 'nowhere.txt'"),
        ({"length": 60}, ValueError, "with windows of 60 needs more characters than that to train on, got 5"),
        ({"length": 10}, ValueError, "with windows of 10 needs more characters than that to evaluate on, got 6"),
    ],
)
def test_what_does_not_fit_is_named(arguments, error, text, path):
    with pytest.raises(error, match=text):
        CharacterText(**{"path": path, **arguments}).load()


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc\xff\xfe")
    with pytest.raises(ValueError, match=r"a.bin' must be text in UTF-8: .* position 3"):
        CharacterText(tmp_path / "a.bin").load()
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match="needs more characters than that to train on, got 0"):
        CharacterText(tmp_path / "empty").load()
    with pytest.raises(ValueError, match="'a' is no character of the files"):
        CharacterText(tmp_path / "empty").encode("a")

"""Byte-pair tokens: which are learned, that any bytes come back, and the data set of their windows."""

import json
import pydoc_data.topics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import BytePairs, TokenText

TEXT = Path(pydoc_data.topics.__file__).read_bytes()[:20_000]
TOKENS = BytePairs.learn(TEXT, 400)


def merged(word: tuple[int, ...], pair: tuple[int, int], token: int) -> tuple[int, ...]:
    """The word with a token in place of each pair."""
    if len(word) < 2:
        return word
    if word[:2] == pair:
        return (token, *merged(word[2:], pair, token))
    return (word[0], *merged(word[1:], pair, token))


def test_the_most_frequent_pair_is_joined_again_and_again() -> None:
    """Counted anew for each pair, of words that are cut by blanks alone."""
    text = b" the cat sat on the mat the rat ate the cheese and the cat aaaa aaaa"
    words = Counter(tuple(b" " + word) for word in text.split())
    pairs = []
    for token in range(256, 290):
        counts: Counter[tuple[int, int]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                counts[pair] += times
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        if counts[best] < 2:
            break
        pairs.append(best)
        words = Counter({merged(word, best, token): times for word, times in words.items()})
    learned = BytePairs.learn(text, 290)
    assert learned.merges == tuple(pairs) and len(pairs) == 9
    assert len(learned.encode(b" the the")) == 2


@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=100).map(str.encode), st.text("abe th\n01.", max_size=200).map(str.encode)
    )
)
@settings(max_examples=30)
def test_any_bytes_come_back(content: bytes) -> None:
    assert TOKENS.decode(TOKENS.encode(content)) == content


def test_tokens_are_fewer_and_a_file_of_them_gives_the_same(tmp_path: Path) -> None:
    ids = TOKENS.encode(TEXT)
    assert ids.dtype == np.int32 and len(ids) < len(TEXT) / 2 and TOKENS.decode(ids) == TEXT
    assert TOKENS.encode("Übung").tolist() == TOKENS.encode("Übung".encode()).tolist()
    assert TOKENS.vocabulary == 400 == 256 + len(TOKENS.merges)
    (tmp_path / "text").write_bytes(TEXT)
    assert BytePairs.learn(tmp_path / "text", 400).merges == TOKENS.merges
    TOKENS.save(tmp_path / "tokens.json")
    assert BytePairs.load(tmp_path / "tokens.json").merges == TOKENS.merges
    data = TokenText(tmp_path / "text", tmp_path / "tokens.json", length=10, test_fraction=0.5, stride=5)
    assert "tokens=BytePairs(<144 pairs>), length=10" in repr(data)
    x, y, test_x, test_y = data.load()
    border = len(ids) - round(len(ids) / 2)
    assert np.array_equal(x[3], ids[15:25]) and np.array_equal(y[3], ids[16:26])
    assert np.array_equal(test_x.reshape(-1), ids[border:][: test_x.size]) and np.array_equal(test_y[:, :-1], test_x[:, 1:])


def test_the_time_grows_with_the_length_alone() -> None:
    """A piece without an end would take a minute."""
    content = b"a" * 200_000 + b" " * 200_000 + b"." * 100_000
    tokens = BytePairs.learn(content, 300)
    assert tokens.decode(tokens.encode(content)) == content


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([400], r"'ids' must be integers from 0 to 399, got \[400\]"),
        ([-1], r"got \[-1\]"),
        ([1.5], r"got \[1.5\]"),
    ],
)
def test_ids_of_no_token_are_refused(ids: list[int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TOKENS.decode(ids)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"encode\(\) 'text' must be a str or bytes, got 3"):
        TOKENS.encode(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"learn\(\) 'source' must be bytes or a path, got 3"):
        BytePairs.learn(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'vocabulary' must be an integer of at least 256, got 255"):
        BytePairs.learn(b"", 255)
    (tmp_path / "other.json").write_text('{"format": "psgd.byte-pairs/2", "merges": []}')
    with pytest.raises(ValueError, match=r"other.json' holds no byte pairs: expected 'format' 'psgd.byte-pairs/1'"):
        BytePairs.load(tmp_path / "other.json")
    with pytest.raises(FileNotFoundError, match="BytePairs finds no file 'nowhere'"):
        BytePairs.learn("nowhere")


def test_a_file_of_a_stranger_asks_for_no_memory_and_no_depth(tmp_path: Path) -> None:
    """Sixty pairs of the token before would be a token of 2**61 bytes."""
    doubled = [[97, 97], *([number, number] for number in range(256, 316))]
    path = tmp_path / "doubled.json"
    path.write_text(json.dumps({"format": "psgd.byte-pairs/1", "merges": doubled}))
    with pytest.raises(
        ValueError, match=r"doubled.json' holds no byte pairs: .* token 266 must have at most 1024 bytes, got 2048"
    ):
        BytePairs.load(path)
    path.write_text('{"format": "psgd.byte-pairs/1", "merges": ' + "[" * 100_000)
    with pytest.raises(ValueError, match=r"doubled.json' holds no byte pairs"):
        BytePairs.load(path)

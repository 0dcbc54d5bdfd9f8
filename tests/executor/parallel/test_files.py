"""Files read in ranges of bytes, against reading them whole."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.parallel import Context

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
lines = st.lists(st.text("abß\t ", max_size=8), max_size=12)
fields = st.text('ab,"\n ß', max_size=6)


@quick
@given(lines, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(1, 12))
def test_lines(context: Context, tmp_path: Path, data: list[str], end: str, ended: bool, parts: int) -> None:
    """Every line once, in order, wherever the cuts fall, and whether the last line is ended or not."""
    path = tmp_path / "text"
    text = end.join(data) + (end if ended and data else "")
    path.write_bytes(text.encode())
    assert context.text_file(path, parts).collect() == [line.rstrip("\r\n") for line in io.StringIO(text, newline="\n")]


@quick
@given(st.lists(st.lists(fields, min_size=2, max_size=2), max_size=10), st.integers(1, 12), st.sampled_from(["\n", "\r\n"]))
def test_records_with_quotes_and_line_feeds(
    context: Context, tmp_path: Path, rows: list[list[str]], parts: int, end: str
) -> None:
    """What csv.reader finds, wherever the cuts fall: within quotes, between doubled quotes, at line feeds."""
    path = tmp_path / "table.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerow(["first", "sec\nond"])
        writer.writerows(rows)
    with open(path, newline="", encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    assert context.csv_file(path, parts).collect() == expected
    with open(path, newline="", encoding="utf-8") as file:
        assert context.csv_file(path, parts, header=False).collect() == list(csv.reader(file))
    assert context.csv_file(path, parts).take(2) == expected[:2]


def test_several_files(context: Context, tmp_path: Path) -> None:
    """A directory in the order of names, each CSV file with its own header; a quote left open ends with its file."""
    (tmp_path / "b.csv").write_text("y,x\n4,3\n")
    (tmp_path / "a.csv").write_text('x,y\n1,2\n5,"6\n')
    (tmp_path / "empty.csv").write_text("")
    assert context.text_file(tmp_path, 4).collect() == ["x,y", "1,2", '5,"6', "y,x", "4,3"]
    rows = context.csv_file([tmp_path / "a.csv", tmp_path / "b.csv"], 5).collect()
    assert rows == [{"x": "1", "y": "2"}, {"x": "5", "y": "6\n"}, {"x": "3", "y": "4"}]
    assert context.text_file(tmp_path / "empty.csv").collect() == []
    assert context.text_file(tmp_path / "empty.csv").map(len).fold(0, max) == 0


def test_relative_paths(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count from the directory of this process, wherever the tasks run."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    made = [context.text_file(path, 1) for path in ("texts", "texts/a", Path("texts"), ["texts/a"])]
    monkeypatch.chdir("/")
    assert [each.collect() for each in made] == [["one"]] * 4


def test_other_encodings_and_delimiters(context: Context, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("ä;b\n1,5;ü\n".encode("latin-1"))
    assert context.csv_file(tmp_path / "t.csv", 3, delimiter=";", encoding="latin-1").collect() == [{"ä": "1,5", "b": "ü"}]
    with pytest.raises(ValueError, match="needs an encoding that extends ASCII, got 'utf-16'"):
        context.text_file(tmp_path / "t.csv", encoding="utf-16")


def test_a_header_after_empty_lines(context: Context, tmp_path: Path) -> None:
    """They are no records, also where the header should be."""
    (tmp_path / "t.csv").write_bytes(b"\n\r\na,b\n1,2\n\n3,4")
    for parts in range(1, 12):
        assert context.csv_file(tmp_path / "t.csv", parts).collect() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    (tmp_path / "t.csv").write_bytes(b"\n\n")
    assert context.csv_file(tmp_path / "t.csv", 2).collect() == []


def test_records_that_end_with_a_carriage_return_alone(context: Context, tmp_path: Path) -> None:
    """As csv.reader has them: none goes with the header."""
    (tmp_path / "t.csv").write_bytes(b"a,b\r1,2\r3,4\r")
    for parts in (1, 3):
        assert context.csv_file(tmp_path / "t.csv", parts).collect() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_bad_input_is_named(context: Context, tmp_path: Path) -> None:
    """A path that is not there, at once; a record that does not fit the header, when it is read."""
    with pytest.raises(FileNotFoundError, match=r"no file or directory .*nowhere"):
        context.text_file(tmp_path / "nowhere")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    table = context.csv_file(tmp_path / "t.csv", 1)
    with pytest.raises(ValueError, match=r"has 1 fields where its header has 2: \['3'\]"):
        table.collect()

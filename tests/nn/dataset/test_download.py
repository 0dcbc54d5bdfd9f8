"""Downloads against a real server on loopback: complete, interrupted, wrong, silent and absent."""

import hashlib
import io
import sys
import threading

import pytest

from nn.dataset import download
from nn.dataset.download import DownloadError, fetch

from .web import nobody, serving, silent

CONTENT = bytes(range(256)) * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server():
    with serving({"a.gz": CONTENT}) as running:
        yield running


def test_one_request_is_enough(server):
    assert fetch("a.gz", [server.url + "/"], MD5) == CONTENT
    assert server.requests == [("a.gz", None)]


def test_a_server_that_does_not_tell_the_length(server):
    server.tells_length = False
    assert fetch("a.gz", [server.url], MD5) == CONTENT


def test_an_interrupted_transfer_goes_on_where_it_stopped(server):
    server.cut_after = 100_000
    assert fetch("a.gz", [server.url], MD5) == CONTENT
    assert server.requests == [("a.gz", None), ("a.gz", "bytes=100000-"), ("a.gz", "bytes=200000-")]


def test_a_server_without_ranges_is_asked_from_the_start(server):
    server.cut_after, server.cuts, server.knows_ranges = 100_000, 1, False
    assert fetch("a.gz", [server.url], MD5) == CONTENT
    assert server.requests == [("a.gz", None), ("a.gz", "bytes=100000-")]


def test_a_server_that_always_breaks_off_is_left_for_the_next(server):
    server.cut_after, server.knows_ranges = 100_000, False
    with pytest.raises(DownloadError, match="the transfer broke off"):
        fetch("a.gz", [server.url], MD5)
    with serving({"a.gz": CONTENT}) as good:
        assert fetch("a.gz", [server.url, good.url], MD5) == CONTENT


def test_a_partial_answer_from_another_place_is_not_used(server):
    server.cut_after, server.shift = 100_000, 5
    with pytest.raises(DownloadError, match="another range than bytes=100000-"):
        fetch("a.gz", [server.url], MD5)


def test_attempts_are_limited(server):
    server.cut_after = 10
    with pytest.raises(DownloadError, match="the transfer broke off"):
        fetch("a.gz", [server.url], MD5)
    assert len(server.requests) == 5


def test_a_wrong_checksum_sends_us_to_the_next_mirror(server):
    with serving({"a.gz": CONTENT + b"x"}) as wrong:
        assert fetch("a.gz", [wrong.url, server.url], MD5) == CONTENT
        found = hashlib.md5(CONTENT + b"x").hexdigest()
        with pytest.raises(DownloadError, match=f"{wrong.url}/a.gz: the file has MD5 {found}, the published one has {MD5}"):
            fetch("a.gz", [wrong.url], MD5)


def test_every_mirror_has_its_reason(server):
    server.files = {}
    absent = nobody()
    with pytest.raises(DownloadError) as caught:
        fetch("a.gz", [server.url, absent], MD5)
    assert f"{server.url}/a.gz: HTTP Error 404" in str(caught.value)
    assert f"{absent}/a.gz: <urlopen error" in str(caught.value)
    with pytest.raises(DownloadError, match="no mirror to ask"):
        fetch("a.gz", [], MD5)


@pytest.mark.slow
def test_a_silent_server_is_left_after_the_time_out():
    with silent() as url, pytest.raises(DownloadError, match="timed out"):
        fetch("a.gz", [url], MD5, timeout=0.1)


def test_an_endless_file_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "_MAX_BYTES", 100_000)
    with pytest.raises(DownloadError, match="at most 100000 bytes"):
        fetch("a.gz", [server.url], MD5)


def test_only_web_addresses_are_mirrors(tmp_path):
    (tmp_path / "a.gz").write_bytes(CONTENT)
    with pytest.raises(ValueError, match="a mirror must be an http or https URL, got 'file:"):
        fetch("a.gz", [tmp_path.as_uri()], MD5)


def tqdm_threads():
    return {thread for thread in threading.enumerate() if type(thread).__module__.startswith("tqdm")}


def test_progress_is_shown_on_a_terminal_only_and_leaves_no_thread(server, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        before = tqdm_threads()
        fetch("a.gz", [server.url], MD5)
        assert ("a.gz: 100%" in stream.getvalue()) is shown
        assert tqdm_threads() == before

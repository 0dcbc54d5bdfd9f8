"""Fetching one published file over HTTP, checked against its published checksum."""

import hashlib
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError

from nn.progress import Bar

__all__ = ["DownloadError", "fetch"]

_ATTEMPTS = 5  # per mirror, and each must bring the file further than the one before
_TIMEOUT = 30.0  # seconds in which a server must say something
# The largest file that is fetched, that of CIFAR-10, has 162 MiB.
_MAX_BYTES = 256 << 20
_CHUNK = 1 << 16


class DownloadError(OSError):
    """No mirror gave the file; the message holds one reason per mirror."""


def fetch(name: str, mirrors: Sequence[str], md5: str, timeout: float = _TIMEOUT) -> bytes:
    """Return the content of a file from the first mirror with a right copy.

    An interrupted transfer goes on where it stopped, by a Range request, or from the start where the server does not know
    these. Progress is shown when stderr is a terminal. The MD5 is the published one: it tells a damaged file, it is no defence
    against a forged one.

    Args:
        name: name of the file.
        mirrors: base URLs, in the order to ask.
        md5: checksum of the content.
        timeout: seconds of every single wait for the server.

    Raises DownloadError when no mirror has it, ValueError for a mirror that is no http or https URL.
    """
    # All of them before the first is asked.
    for mirror in mirrors:
        if not mirror.startswith(("http://", "https://")):
            raise ValueError(f"a mirror must be an http or https URL, got {mirror!r}")
    reasons = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{name}"
        try:
            content = _fetch_from(url, timeout)
        except (OSError, HTTPException) as error:
            reasons.append(f"{url}: {error or type(error).__name__}")
            continue
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found == md5:
            return content
        reasons.append(f"{url}: the file has MD5 {found}, the published one has {md5}")
    raise DownloadError("; ".join(reasons) or "there is no mirror to ask")


def _fetch_from(url: str, timeout: float) -> bytes:
    """Return the whole file at `url`, over as many connections as it takes while each of them brings something."""
    content = bytearray()
    failure: Exception = DownloadError("the transfer broke off")
    with Bar(desc=url.rpartition("/")[2], unit="B", unit_scale=True, disable=None) as bar:
        for _ in range(_ATTEMPTS):
            before = len(content)
            try:
                if _continue(url, content, bar, timeout):
                    return bytes(content)
            # Another attempt would get the same.
            except DownloadError:
                raise
            except (OSError, HTTPException) as error:
                failure = error
                if isinstance(error, HTTPError):
                    error.close()  # it is also the answer, and holds the connection
            if len(content) <= before:
                # An attempt that brought nothing will not be followed by one that does.
                break
    raise failure


def _continue(url: str, content: bytearray, bar: Bar, timeout: float) -> bool:
    """Ask for the bytes that `content` still lacks, append them, and tell whether the file is complete."""
    headers = {"User-Agent": "parallel-sgd"}
    # Whether the rest belongs to the same file is told by the checksum of the whole.
    if content:
        headers["Range"] = f"bytes={len(content)}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # fetch has checked the scheme
    with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
        if response.status != HTTPStatus.PARTIAL_CONTENT:  # the server knows no ranges and sends all from the start
            content.clear()
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {len(content)}-"):
            raise DownloadError(f"the server sent another range than {headers.get('Range', 'none')}")
        length = response.headers.get("Content-Length", "")
        expected = len(content) + int(length) if length.isdecimal() else None
        bar.total, bar.n = expected, len(content)
        while chunk := response.read(_CHUNK):
            content += chunk
            bar.update(len(chunk))
            if len(content) > _MAX_BYTES:
                raise DownloadError(f"the file must have at most {_MAX_BYTES} bytes")
    return expected is None or len(content) == expected

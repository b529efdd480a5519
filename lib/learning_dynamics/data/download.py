"""Downloading a known file: resumed, verified, never trusted half.

A file arrives under `NAME.part` and gets its own name only after its SHA-256 was found right; it is verified again
each time it is used. A lock file lets one process download while others wait for it.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:
    # Windows: no lock; two downloads at once then end in a checksum error, never in a wrong file
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

CHUNK = 1 << 16
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class DataError(RuntimeError):
    """A data set cannot be had; the message names the set and the reason in one line."""


@dataclass(frozen=True)
class RemoteFile:
    """A file whose content is known beforehand.

    Attributes:
        path: where it lies under the cache folder.
        urls: where to get it, tried in order.
        sha256: its checksum.
        size: its size in bytes.

    Raises:
        ValueError: a server is not asked over https; http is allowed to this machine itself only.
    """

    path: str
    urls: tuple[str, ...]
    sha256: str
    size: int

    def __post_init__(self) -> None:
        for url in self.urls:
            if not _is_safe(url):
                raise ValueError(f"url = {url!r}; allowed: https")


def _is_safe(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects that stay with https."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _is_safe(newurl):
            raise http.client.HTTPException(f"redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def cache_folder() -> Path:
    """Return the folder for downloads: $LEARNING_DYNAMICS_CACHE, or ~/.cache/learning_dynamics."""
    named = os.environ.get("LEARNING_DYNAMICS_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "learning_dynamics"


def fetch(name: str, file: RemoteFile, folder: Path | None = None, timeout: float = 30.0) -> Path:
    """Return the path of a verified local copy, downloading what is missing of it.

    What is left of an interrupted download is continued; a partial file is removed when its content turns out wrong
    or the disk is full, and kept otherwise. A cached file with a wrong checksum is replaced.

    Args:
        name: the data set's name, for messages.
        file: the file.
        folder: the cache; `cache_folder()` if left out.
        timeout: seconds without an answer after which a server is given up.

    Raises:
        DataError: no server gave the right content, or it cannot be stored.
    """
    target = (folder or cache_folder()) / file.path
    if _is_right(target, file) and not os.access(target.parent, os.W_OK):
        return target  # a cache that one may only read, such as a shared one, needs no lock
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(target.name + ".lock")):
            if not _is_right(target, file):
                target.unlink(missing_ok=True)
                _download(name, file, target, timeout)
    except OSError as error:
        raise DataError(f"{name}: {target} cannot be stored: {error.strerror or error}") from error
    return target


def _download(name: str, file: RemoteFile, target: Path, timeout: float) -> None:
    part = target.with_name(target.name + ".part")
    if part.exists() and part.stat().st_size >= file.size and not _is_right(part, file):
        part.unlink()
    reasons: list[str] = []
    for url in file.urls:
        # once more from the start where the beginning was of another file
        for begun in (part.exists(), False):
            try:
                # a whole one is left when a process ends just before the renaming
                if not _is_right(part, file):
                    _transfer(url, part, file.size, timeout)
            except (OSError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    part.unlink(missing_ok=True)
                    raise
                reasons.append(f"{url}: {' '.join(str(getattr(error, 'reason', None) or error).split())}")
                break
            size = part.stat().st_size
            if size < file.size:
                reasons.append(
                    f"{url}: ended after {size} of {file.size} bytes (kept, the next try continues)"
                )
                break
            if _is_right(part, file):
                os.replace(part, target)
                return
            part.unlink()
            if not begun:
                reasons.append(f"{url}: wrong checksum or size (removed)")
                break
    raise DataError(f"{name}: {target.name} could not be downloaded: " + "; ".join(reasons))


def _transfer(url: str, part: Path, size: int, timeout: float) -> None:
    """Append to `part` what it lacks, or write it anew where the server does not continue."""
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "learning_dynamics"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response = urllib.request.build_opener(_SafeRedirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the server's file is shorter than what is here
            part.unlink(missing_ok=True)
        raise
    with response:
        continues = response.status == 206
        if continues and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise http.client.HTTPException("the server sent another range than it was asked for")
        # one byte too many is enough to see that it is the wrong file
        left = size - (start if continues else 0) + 1
        with part.open("ab" if continues else "wb") as stream:
            while left > 0 and (chunk := response.read(min(CHUNK, left))):
                stream.write(chunk)
                left -= len(chunk)


def _is_right(path: Path, file: RemoteFile) -> bool:
    """Return whether the file is there and has the known size and checksum."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the system frees it when its process ends, however that happens."""
    with path.open("w") as stream:
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield

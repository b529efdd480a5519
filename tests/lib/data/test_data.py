from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import multiprocessing
import socket
import struct
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from learning_dynamics import data
from learning_dynamics.data import cifar, idx, libsvm, shipped
from learning_dynamics.data.public import PUBLIC
from learning_dynamics.data.ts import read_ts

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8))
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


# What is shipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("mnist-10k", (10_000, 28, 28), 10),
        ("digits", (1797, 8, 8), 10),
        ("breast-cancer", (569, 30), 2),
        ("diabetes", (442, 10), None),
        ("wine", (178, 13), 3),
    ],
)
def test_shipped_sets(name: str, shape: tuple[int, ...], classes: int | None) -> None:
    loaded = data.load(name, "smoke")
    assert loaded.inputs.shape == shape and len(loaded) == shape[0] and loaded.name == name
    assert loaded.inputs.dtype == torch.float64 and loaded.inputs.isfinite().all()
    assert loaded.classes == classes and loaded.source and loaded.licence
    if classes is None:
        assert loaded.targets.dtype == torch.float64
    else:
        assert loaded.targets.dtype == torch.int64
        assert loaded.targets.unique().tolist() == list(range(classes))
    if len(shape) == 3:
        assert loaded.inputs.min() == 0 and loaded.inputs.max() == 1


def test_mnist_10k_is_mnist() -> None:
    images, labels = shipped.read_mnist_10k()
    assert images.dtype == labels.dtype == np.uint8
    pixels = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    notes = shipped.MNIST_10K.with_suffix(".md").read_text()
    assert pixels in notes and shipped.MNIST_10K_SHA256 in notes
    assert np.bincount(labels).tolist() == [1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978]
    first_five = images[labels == 5][0]  # the first training image of MNIST
    assert first_five[5, 12:24].tolist() == [3, 18, 18, 18, 126, 136, 175, 26, 166, 255, 247, 127]


def test_every_prefix_of_mnist_10k_is_balanced() -> None:
    _, labels = shipped.read_mnist_10k()
    shares = np.bincount(labels) / len(labels)
    counts = np.cumsum(labels[:, None] == np.arange(10), axis=0)
    assert np.abs(counts - np.arange(1, 10_001)[:, None] * shares).max() <= 1


def test_a_changed_mnist_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = bytearray(shipped.MNIST_10K.read_bytes())
    changed[1000] ^= 1
    (tmp_path / "mnist_10k.npz").write_bytes(changed)
    monkeypatch.setattr(shipped, "MNIST_10K", tmp_path / "mnist_10k.npz")
    with pytest.raises(ValueError, match="SHA-256 of mnist_10k.npz = "):
        shipped.read_mnist_10k.__wrapped__()


def test_loading_keeps_dtype_and_gives_each_caller_its_own_tensor() -> None:
    first = data.load("digits", dtype=torch.float32, device="cpu")
    first.inputs.zero_()
    assert first.inputs.dtype == torch.float32
    mnist = data.load("mnist-10k")
    mnist.targets.zero_()
    assert data.load("digits").inputs.max() == 1 and data.load("mnist-10k").targets.max() == 9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            {"name": "iris"},
            "name = 'iris'; allowed at scale 'book': one of mnist-10k, digits, breast-cancer, diab",
        ),
        ({"name": "mnist"}, r"name = 'mnist' \(this set needs scale='paper'\)"),
        ({"name": "mnist", "scale": "smoke"}, "allowed at scale 'smoke': one of mnist-10k"),
        ({"name": "iris", "scale": "paper"}, "one of mnist-10k.*fashion-mnist.*cifar-10.*a1a"),
        ({"name": "wine", "scale": "big"}, "scale = 'big'; allowed: smoke, book, paper"),
        ({"name": "wine", "dtype": torch.int64}, "dtype = torch.int64"),
    ],
)
def test_a_bad_argument_is_named(call: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.load(**call)


def test_the_table_of_public_sets_is_complete() -> None:
    for name, known in PUBLIC.items():
        assert known.source and known.licence, name
        for file in known.files:
            assert len(file.sha256) == 64 and int(file.sha256, 16) and file.size > 0
            assert file.urls and all(
                url.startswith("http") and url.endswith(Path(file.path).name) for url in file.urls
            )


# A local server ------------------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; `server.ranges` turns Range on, `server.cut` ends an answer early,
    `server.pause` holds it up."""

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.requests.append((self.path, asked))
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if asked and server.ranges else 200)
        if asked and server.ranges:
            self.send_header(
                "Content-Range", f"bytes {start + server.shift}-{len(content) - 1}/{len(content)}"
            )
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start : start + server.cut]
        self.wfile.write(body[:1000])
        self.wfile.flush()
        server.delay.wait(server.pause)
        self.wfile.write(body[1000:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.files, running.requests, running.ranges, running.shift = {"/f.bin": CONTENT}, [], True, 0
        running.cut, running.pause, running.delay = len(CONTENT), 0.0, threading.Event()
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEARNING_DYNAMICS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


def url(server: http.server.ThreadingHTTPServer, path: str = "/f.bin") -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def known(*urls: str, content: bytes = CONTENT) -> data.RemoteFile:
    return data.RemoteFile("set/f.bin", urls, hashlib.sha256(content).hexdigest(), len(content))


def one_line(caught: pytest.ExceptionInfo) -> str:
    text = str(caught.value)
    assert "\n" not in text and text.startswith("some-set: ")
    return text


def test_a_file_is_downloaded_once(server, cache: Path) -> None:
    for _ in range(2):
        path = data.fetch("some-set", known(url(server)))
        assert path == cache / "set" / "f.bin" and path.read_bytes() == CONTENT
    assert server.requests == [("/f.bin", None)]
    assert not list(cache.rglob("*.part"))


def test_the_cache_is_in_the_home_folder_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEARNING_DYNAMICS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.download.cache_folder() == tmp_path / ".cache" / "learning_dynamics"


def test_a_refused_connection_is_one_line(cache: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(data.DataError) as caught:
        data.fetch("some-set", known(f"http://127.0.0.1:{port}/f.bin"))
    assert "refused" in one_line(caught)
    assert not (cache / "set" / "f.bin").exists()


def test_the_next_server_is_asked(server) -> None:
    path = data.fetch("some-set", known(url(server, "/absent"), url(server)))
    assert path.read_bytes() == CONTENT
    with pytest.raises(data.DataError, match="absent: Not Found"):
        data.fetch("some-set", replace(known(url(server, "/absent")), path="other"))


def test_a_truncated_file_is_continued_and_never_trusted(server, cache: Path) -> None:
    server.cut = 100_000
    with pytest.raises(data.DataError) as caught:
        data.fetch("some-set", known(url(server)))
    assert "ended after 100000 of 300000 bytes" in one_line(caught)
    assert not (cache / "set" / "f.bin").exists()
    assert (cache / "set" / "f.bin.part").read_bytes() == CONTENT[:100_000]
    server.cut = len(CONTENT)
    assert data.fetch("some-set", known(url(server))).read_bytes() == CONTENT
    assert server.requests == [("/f.bin", None), ("/f.bin", "bytes=100000-")]


def test_a_server_without_ranges_starts_over(server, cache: Path) -> None:
    leave_part(cache, b"something else")
    server.ranges = False
    assert data.fetch("some-set", known(url(server))).read_bytes() == CONTENT
    assert server.requests == [("/f.bin", "bytes=14-")]


def test_a_server_that_sends_another_range_is_refused(server, cache: Path) -> None:
    leave_part(cache, CONTENT[:50])
    server.shift = 7
    with pytest.raises(data.DataError, match="another range"):
        data.fetch("some-set", known(url(server)))
    assert (cache / "set" / "f.bin.part").read_bytes() == CONTENT[:50]


def test_a_foreign_partial_file_costs_one_more_request(server, cache: Path) -> None:
    leave_part(cache, b"something else")
    assert data.fetch("some-set", known(url(server))).read_bytes() == CONTENT
    assert server.requests == [("/f.bin", "bytes=14-"), ("/f.bin", None)]


def test_a_short_page_of_the_first_server_does_not_spoil_the_second(server, cache: Path) -> None:
    server.files["/page"] = b"<html>try again later</html>"
    assert data.fetch("some-set", known(url(server, "/page"), url(server))).read_bytes() == CONTENT


@pytest.mark.parametrize("target", ["http://example.invalid/f.bin", "ftp://example.invalid/f.bin"])
def test_redirects_away_from_https_are_not_followed(
    server, cache: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    def redirecting(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    monkeypatch.setattr(Handler, "do_GET", redirecting)
    with pytest.raises(data.DataError, match="redirected to .*, which is not https") as caught:
        data.fetch("some-set", known(url(server)))
    one_line(caught)


@pytest.mark.parametrize(
    "part", [CONTENT, b"x" * 300_000, b"x" * 300_001], ids=["whole", "wrong", "too long"]
)
def test_a_partial_file_of_full_size(server, cache: Path, part: bytes) -> None:
    leave_part(cache, part)
    assert data.fetch("some-set", known(url(server))).read_bytes() == CONTENT
    assert len(server.requests) == (part != CONTENT)


def test_a_shorter_file_on_the_server_removes_the_partial_one(server, cache: Path) -> None:
    leave_part(cache, CONTENT[:5000])
    server.files["/f.bin"] = CONTENT[:4000]
    with pytest.raises(data.DataError, match="Range"):
        data.fetch("some-set", known(url(server)))
    assert not (cache / "set" / "f.bin.part").exists()


@pytest.mark.parametrize("served", [CONTENT[::-1], CONTENT + b"more"], ids=["other bytes", "more bytes"])
def test_a_wrong_file_is_removed(server, cache: Path, served: bytes) -> None:
    server.files["/f.bin"] = served
    server.cut = len(served)
    with pytest.raises(data.DataError) as caught:
        data.fetch("some-set", known(url(server)))
    assert "wrong checksum" in one_line(caught)
    assert [path.name for path in (cache / "set").iterdir()] == ["f.bin.lock"]


def test_a_cached_file_that_rotted_is_replaced(server, cache: Path) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "f.bin").write_bytes(b"x" * len(CONTENT))
    assert data.fetch("some-set", known(url(server))).read_bytes() == CONTENT


def test_a_silent_server_is_given_up(server) -> None:
    server.pause = 5.0
    with pytest.raises(data.DataError, match="timed out"):
        data.fetch("some-set", known(url(server)), timeout=0.2)
    server.delay.set()


@needs_dev_full
def test_a_full_disk_is_one_line_and_leaves_nothing(server, cache: Path) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "f.bin.part").symlink_to("/dev/full")
    with pytest.raises(data.DataError) as caught:
        data.fetch("some-set", known(url(server), url(server)))
    assert "No space left on device" in one_line(caught)
    assert [path.name for path in (cache / "set").iterdir()] == ["f.bin.lock"]
    assert len(server.requests) == 1


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(data.DataError, match="some-set: .* cannot be stored"):
        data.fetch("some-set", known("http://127.0.0.1:9/"), tmp_path / "file")


def _fetch_in_a_process(address: str, folder: Path, results: multiprocessing.Queue) -> None:
    results.put(data.fetch("some-set", known(address), folder).read_bytes() == CONTENT)


@pytest.mark.skipif(sys.platform == "win32", reason="no lock there")
def test_two_processes_at_once_download_once(server, cache: Path) -> None:
    server.pause = 0.3
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    arguments = (url(server), cache, results)
    processes = [context.Process(target=_fetch_in_a_process, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=20) for _ in processes] == [True, True]
    for process in processes:
        process.join(20)
    assert len(server.requests) == 1


def leave_part(cache: Path, content: bytes) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "f.bin.part").write_bytes(content)


# Formats -------------------------------------------------------------------------------------------------------------


def idx_bytes(array: np.ndarray, code: int) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(idx.TYPES[code]).tobytes()


@pytest.mark.parametrize("code", idx.TYPES)
def test_idx_files_are_read_in_every_type(tmp_path: Path, code: int) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx_bytes(array, code))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(array, code)))
    for name in ("a", "a.gz"):
        read = idx.read(tmp_path / name)
        assert np.array_equal(read, array) and read.dtype == np.dtype(idx.TYPES[code]).newbyteorder("=")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "allowed: an IDX header"),
        (b"\0\1\x08\1\0\0\0\1x", "allowed: an IDX header"),
        (b"\0\0\x07\1\0\0\0\1x", "allowed: an IDX header"),
        (b"\0\0\x08\2\0\0\0\1", "the header ends after 8 bytes; allowed: 12"),
        (b"\0\0\x08\1\0\0\0\2x", r"9 bytes; allowed: 10 for shape \(2,\)"),
        (b"\0\0\x08\1\0\0\0\1xy", "10 bytes; allowed: 9"),
    ],
)
def test_a_broken_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=f"^a: .*{message}"):
        idx.read(tmp_path / "a")


def test_a_cut_gzip_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(np.arange(99), 0x0C))[:-20])
    with pytest.raises(ValueError, match="no whole gzip file"):
        idx.read(tmp_path / "a.gz")


@pytest.mark.parametrize("damage", ("cut", "flipped", "no gzip"))
def test_damaged_archives_are_value_errors(tmp_path: Path, damage: str) -> None:
    lines = "".join(f"{i % 2} {i + 1}:{i / 7}\n" for i in range(999)).encode()
    random = np.random.default_rng(0).integers(0, 255, 4 * cifar.RECORD, np.uint8).tobytes()
    for name, whole, read in (
        ("a.gz", gzip.compress(lines), libsvm.read),
        (
            "a.tar.gz",
            cifar_bytes({"x": random}),
            lambda path: cifar.read(path, ["cifar-10-batches-bin/x.bin"]),
        ),
        ("b.gz", gzip.compress(idx_bytes(np.arange(999), 0x0C)), idx.read),
    ):
        read_content = bytearray(whole)
        if damage == "cut":
            del read_content[len(whole) // 2 :]
        elif damage == "flipped":
            read_content[len(whole) // 2] ^= 0xFF
        else:
            read_content = bytearray(b"no archive at all")
        (tmp_path / name).write_bytes(whole)
        read(tmp_path / name)
        (tmp_path / name).write_bytes(read_content)
        with pytest.raises(ValueError, match=f"^{name}"):
            read(tmp_path / name)


def test_libsvm_stays_sparse_where_dense_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"1 {50_000_000 + i}:1.5\n" for i in range(20)))
    with pytest.raises(ValueError, match="7.5 GiB dense; allowed: at most 4 GiB, or read_sparse"):
        libsvm.read(tmp_path / "a")
    inputs, targets = libsvm.read_sparse(tmp_path / "a")
    assert inputs.shape == (20, 50_000_019) and inputs.nnz == 20 and targets.sum() == 20
    (tmp_path / "b").write_text(LIBSVM_TEXT)
    assert np.array_equal(libsvm.read_sparse(tmp_path / "b")[0].toarray(), libsvm.read(tmp_path / "b")[0])


@pytest.mark.parametrize("address", ("http://example.org/f", "ftp://example.org/f", "file:///f", "f"))
def test_files_come_over_https_only(address: str) -> None:
    with pytest.raises(ValueError, match="allowed: https"):
        known(address)


LIBSVM_TEXT = "-1 3:1 11:0.5 \n+1 1:-2.5e-1 # a_comment\n2\n"


def test_libsvm_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(LIBSVM_TEXT)
    inputs, targets = libsvm.read(tmp_path / "a", features=12)
    expected = np.zeros((3, 12))
    expected[0, 2], expected[0, 10], expected[1, 0] = 1, 0.5, -0.25
    assert np.array_equal(inputs, expected) and targets.tolist() == [-1, 1, 2]
    assert libsvm.read(tmp_path / "a")[0].shape == (3, 11)


@pytest.mark.parametrize(
    ("text", "features", "message"),
    [
        ("1 0:1\n", None, "Invalid index 0"),
        ("1 2:1 1:1\n", None, "allowed: LIBSVM format"),
        ("1 a:1\n", None, "allowed: LIBSVM format"),
        ("x 1:1\n", None, "allowed: LIBSVM format"),
        ("1 5:1\n", 4, "allowed: LIBSVM format"),
        ("", None, "a"),
        ("# nothing\n", 3, "holds no sample"),
        ("1 1:1 1:2\n", None, "allowed: LIBSVM format"),
        ("1 1\n", None, "allowed: LIBSVM format"),
        ("1 99999999999:1\n", 4, "allowed: LIBSVM format"),
        ("1 1:1\n1 1:1_000\n", None, "a, line 2 = '1 1:1_000'; allowed: numbers without _"),
        ("1_0 1:1\n", None, "allowed: numbers without _"),
        ("1 1_0:1\n", None, "allowed: numbers without _"),
        ("1 1:nan\n", None, "holds a number that is not finite"),
        ("inf 1:1\n", None, "holds a number that is not finite"),
        ("1 1:1\n", 0, "features = 0; allowed: an integer >= 1"),
    ],
)
def test_a_broken_libsvm_file_is_refused(
    tmp_path: Path, text: str, features: int | None, message: str
) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(ValueError, match=message):
        libsvm.read(tmp_path / "a", features)


def cifar_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_a_broken_cifar_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(cifar_bytes({"test_batch": bytes(3072)}))
    with pytest.raises(ValueError, match="has 3072 bytes; allowed: a multiple of 3073"):
        cifar.read(tmp_path / "a.tar.gz", ["cifar-10-batches-bin/test_batch.bin"])
    with pytest.raises(ValueError, match="has no file 'x'"):
        cifar.read(tmp_path / "a.tar.gz", ["x"])


# Public sets, from made files ----------------------------------------------------------------------------------------


def serve(monkeypatch: pytest.MonkeyPatch, server, name: str, contents: list[bytes]) -> None:
    """Let a public set consist of made files on the local server."""
    files = []
    for file, content in zip(PUBLIC[name].files, contents, strict=True):
        server.files[f"/{file.path}"] = content
        address = (url(server, f"/{file.path}"),)
        files.append(data.RemoteFile(file.path, address, hashlib.sha256(content).hexdigest(), len(content)))
    server.cut = max(map(len, contents))
    monkeypatch.setitem(PUBLIC, name, replace(PUBLIC[name], files=tuple(files)))


@pytest.mark.parametrize("name", ["mnist", "mnist-test", "fashion-mnist", "kmnist-test"])
def test_relatives_of_mnist(server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (10, 28, 28))
    contents = [gzip.compress(idx_bytes(images, 8)), gzip.compress(idx_bytes(np.arange(10)[::-1], 8))]
    serve(monkeypatch, server, name, contents)
    loaded = data.load(name, "paper", dtype=torch.float32)
    np.testing.assert_allclose(loaded.inputs, images / 255, rtol=1e-6)
    assert loaded.targets.tolist() == list(range(10))[::-1] and loaded.classes == 10 and loaded.name == name


def test_cifar_10(server, monkeypatch: pytest.MonkeyPatch) -> None:
    records = np.random.default_rng(0).integers(0, 256, (10, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(10)
    batches = {f"data_batch_{i + 1}": records[2 * i : 2 * i + 2].tobytes() for i in range(5)}
    contents = [cifar_bytes(batches | {"test_batch": records[::-1].tobytes()})]
    serve(monkeypatch, server, "cifar-10", contents)
    serve(monkeypatch, server, "cifar-10-test", contents)
    train, test = data.load("cifar-10", "paper"), data.load("cifar-10-test", "paper")
    assert train.inputs.shape == (10, 3, 32, 32) and train.targets.tolist() == list(range(10))
    assert train.inputs[3, 1, 2, 5] == records[3, 1 + 1024 + 2 * 32 + 5] / 255
    assert torch.equal(test.inputs, train.inputs.flip(0))
    assert len(server.requests) == 1


@pytest.mark.parametrize(("name", "features"), [("a1a", 123), ("breast-cancer-original", 10)])
def test_libsvm_sets(server, monkeypatch: pytest.MonkeyPatch, name: str, features: int) -> None:
    serve(monkeypatch, server, name, [b"4 1:0.5\n2 2:-1 7:1\n"])
    loaded = data.load(name, "paper")
    assert loaded.inputs.shape == (2, features) and loaded.targets.tolist() == [1, 0] and loaded.classes == 2


def test_a_public_set_that_cannot_be_had_is_no_other_set(server, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, server, "a1a", [b"1 1:1\n"])
    server.files.clear()
    with pytest.raises(data.DataError, match="^a1a: a1a could not be downloaded"):
        data.load("a1a", "paper")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"@data\n1_0,2:a\n", "numbers, none missing"),
        ("@data\n\uff11,2:a\n".encode(), "numbers, none missing"),
        (b"@data\n1,2:a\x0b3,4:b\n", "one channel and a label"),
        ("@data\n1,2:a\u20283,4:b\n".encode(), "one channel and a label"),
        (b"@data\n1,2:\xe9\n", "allowed: text in UTF-8"),
        (b"@univariate\tfalse\n@data\n1,2:a\n", "@univariate = 'false'"),
        (b"@dimensions 2\n@data\n1,2:a\n", "@dimensions = '2'"),
    ],
)
def test_ts_files_that_only_look_right(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.ts"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_ts(str(path))
    assert "allowed" in str(error.value) and "\n" not in str(error.value)


def test_idx_headers_whose_sizes_overflow_or_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for header in (b"\0\0\x08\x00a", b"\0\0\x08\x04" + b"\0\x01\0\0" * 4):
        path.write_bytes(header)
        with pytest.raises(ValueError, match="allowed"):
            idx.read(path)


def test_what_stays_in_memory_cannot_be_written_into() -> None:
    with pytest.raises(ValueError, match="read-only"):
        shipped.read_mnist_10k()[0][0] = 0

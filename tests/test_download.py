"""Fetching files: against a real server on this machine, which can be told to misbehave."""

import hashlib
import re
from pathlib import Path

import pytest

from oasis_bench.datasets.files import fetch
from oasis_bench.system import UsageError, cache_home

CONTENT = bytes(i * i % 251 for i in range(300_000))
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(server, monkeypatch):
    """A server with a file that holds CONTENT, which is asked again without a pause."""
    monkeypatch.setattr("oasis_bench.datasets.files.PAUSES", (0.0, 0.0))
    (server.folder / "file.bin").write_bytes(CONTENT)
    return server


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "file.bin"


def files_beside(path):
    return [file.name for file in path.parent.iterdir()]


@pytest.mark.parametrize("checksum", [MD5, SHA256])
def test_a_file_arrives_whole_and_alone(server, path, checksum):
    fetch(server.url("file.bin"), path, checksum)
    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["file.bin"]


@pytest.mark.parametrize("tells_length", [True, False])
def test_progress_tells_bytes_and_the_total_where_it_is_known(server, path, tells_length):
    server.tells_length = tells_length
    told = []
    fetch(server.url("file.bin"), path, MD5, lambda *args: told.append(args))
    done = [bytes_done for _, bytes_done, _ in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, len(CONTENT))
    assert {what for what, _, _ in told} == {"file.bin"}
    assert {total for _, _, total in told} == {len(CONTENT) if tells_length else None}


def test_a_wrong_checksum_leaves_nothing_and_is_not_tried_again(server, path):
    with pytest.raises(
        UsageError, match=f"{re.escape(server.url('file.bin'))}: .*{MD5[4:]}, not 0123,"
    ):
        fetch(server.url("file.bin"), path, "md5:0123")
    assert files_beside(path) == []
    assert server.ranges == [None]


def test_a_connection_that_dies_is_resumed_where_it_died(server, path):
    server.dies_after = [100_000, 50_000]
    fetch(server.url("file.bin"), path, MD5)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_server_that_ignores_ranges_sends_it_all_again(server, path):
    server.dies_after, server.knows_ranges = [100_000], False
    fetch(server.url("file.bin"), path, MD5)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]


@pytest.mark.parametrize(
    ("left", "asked"),
    [
        (CONTENT[:10], ["bytes=10-"]),
        (CONTENT, ["bytes=300000-"]),
        (b"another file", ["bytes=12-", None]),
        (CONTENT + b"too long", ["bytes=300008-", None]),
    ],
    ids=["a part", "all of it", "something else", "too much"],
)
def test_what_an_earlier_run_left_is_used_only_where_it_is_right(server, path, left, asked):
    path.parent.mkdir()
    path.with_name("file.bin.part").write_bytes(left)
    fetch(server.url("file.bin"), path, MD5)
    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["file.bin"]
    assert server.ranges == asked


def test_a_busy_server_is_asked_again(server, path):
    server.statuses = [503, 429]
    fetch(server.url("file.bin"), path, MD5)
    assert path.read_bytes() == CONTENT
    assert len(server.ranges) == 3


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (503, 3)])
def test_a_refusal_is_told_in_one_line_with_the_remedy(server, path, status, requests):
    server.statuses = [status] * 9
    with pytest.raises(UsageError) as caught:
        fetch(server.url("file.bin"), path, MD5)
    message = str(caught.value)
    assert message.startswith(f"cannot download {server.url('file.bin')}: HTTP Error {status}: ")
    assert (
        f"put the file at {path}, or in new/ of the folder that OASIS_BENCH_DATA names" in message
    )
    assert "\n" not in message
    assert files_beside(path) == []
    assert len(server.ranges) == requests


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    for variable in ("OASIS_BENCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache" / "oasis-bench"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_home() == tmp_path / ".cache" / "oasis-bench"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_home() == Path("/xdg/oasis-bench")
    monkeypatch.setenv("OASIS_BENCH_CACHE", "~/mine")
    assert cache_home() == tmp_path / "mine"

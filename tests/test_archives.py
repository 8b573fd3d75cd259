"""Unpacking archives: real ones, served by a real server on this machine, good and evil."""

import hashlib
import io
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from report_helpers import contents

from oasis_bench.datasets.files import Archive, locate
from oasis_bench.system import UsageError

FILES = {"top/a/1.jpg": b"one", "top/a/2.jpg": b"", "top/b/3.jpg": bytes(70_000)}
KINDS = ("tar", "tar.gz", "zip")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    cache = tmp_path / "outer" / "cache"
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(cache))
    monkeypatch.delenv("OASIS_BENCH_DATA", raising=False)
    return cache


@pytest.fixture
def publish(server, cache):
    """Put an archive on the server; its checksum is the right one."""

    def publish(name, content, **more):
        (server.folder / name).write_bytes(content)
        return Archive(
            url=server.url(name),
            checksum="md5:" + hashlib.md5(content).hexdigest(),
            **more,
        )

    return publish


def packed(kind, files=FILES):
    if kind == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in files.items():
                file.writestr(name, content)
        return buffer.getvalue()
    return tar([entry(name, content) for name, content in files.items()], kind)


def entry(name, content=b"", kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info, content


def tar(entries, kind="tar"):
    buffer = io.BytesIO()
    mode = "w:gz" if kind.endswith("gz") else "w:"
    with tarfile.open(fileobj=buffer, mode=mode) as file:
        for info, content in entries:
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def files_outside(cache, archive):
    """All files of the test but the archive, on the server and in the cache."""
    return {path.name for path in cache.parents[1].rglob("*") if not path.is_dir()} - {
        archive.file_name
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_downloaded_and_unpacked_once(publish, cache, server, kind):
    archive = publish(f"set.{kind}", packed(kind))
    told = {}
    folder = locate("set", archive, lambda what, done, total: told.update({what: done}))
    assert folder == cache / "set"
    assert contents(folder) == FILES
    assert {path.name for path in cache.iterdir()} == {"set", "archives"}
    assert told[f"unpacking set.{kind}"] == 1
    assert locate("set", archive) == folder
    assert len(server.asked) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_within_an_archive_becomes_the_folder_of_the_set(publish, kind):
    folder = locate("set", publish(f"set.{kind}", packed(kind), top="top"))
    assert contents(folder) == {name.removeprefix("top/"): FILES[name] for name in FILES}


def test_an_archive_within_an_archive_is_unpacked_alone(publish, cache):
    outer = {"x/inner.tar.gz": packed("tar.gz"), "x/readme.txt": b"not wanted"}
    archive = publish("set.zip", packed("zip", outer), inner="x/inner.tar.gz")
    assert contents(locate("set", archive)) == FILES
    assert {path.name for path in cache.iterdir()} == {"set", "archives"}


def test_an_archive_at_hand_is_not_downloaded(publish, server, cache, tmp_path, monkeypatch):
    (tmp_path / "data" / "archives").mkdir(parents=True)
    (tmp_path / "data" / "archives" / "set.tar").write_bytes(packed("tar"))
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path / "data"))
    assert contents(locate("set", publish("set.tar", packed("tar")))) == FILES
    assert (server.asked, [path.name for path in cache.iterdir()]) == ([], ["set"])


def test_a_part_of_an_archive_at_hand_is_refused(publish, cache):
    """Cut in a header, where tarfile sees the end of a whole one."""
    archive = publish("set.tar", packed("tar"))
    (cache / "archives").mkdir(parents=True)
    (cache / "archives" / "set.tar").write_bytes(packed("tar")[:1700])
    with pytest.raises(UsageError, match=rf"has md5 .*, not {archive.checksum[4:]}: .*: delete it"):
        locate("set", archive)
    assert [path.name for path in cache.iterdir()] == ["archives"]


EVIL = {
    "a name that climbs": (tar([entry("../evil", b"x")]), "outside the destination"),
    "a link out": (
        tar([entry("a", b"", tarfile.SYMTYPE, "../.."), entry("a/evil", b"x")]),
        "'a' would link to .* outside the destination",
    ),
    "cut short": (packed("tar")[:5000], ""),
    "no tar": (b"<html>not found</html>" * 100, ""),
}


@pytest.mark.parametrize("evil", EVIL)
def test_what_cannot_be_unpacked_leaves_nothing(publish, cache, evil):
    content, reason = EVIL[evil]
    archive = publish("set.tar", content)
    with pytest.raises(UsageError, match=rf"^cannot unpack .*{reason}.*: delete it, and it is"):
        locate("set", archive)
    assert files_outside(cache, archive) == set()
    assert [path.name for path in cache.iterdir()] == ["archives"]


def test_after_an_interruption_nothing_half_made_is_taken_for_the_set(publish, cache, server):
    archive = publish("set.tar", packed("tar"))

    def interrupt(what, done, total):
        if what.startswith("unpacking"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        locate("set", archive, interrupt)
    assert not (cache / "set").exists()
    (cache / "set.unpacking" / "content").mkdir(parents=True)  # as after a kill
    (cache / "set.unpacking" / "content" / "half").write_bytes(b"x")
    assert contents(locate("set", archive)) == FILES
    assert len(server.asked) == 1
    assert {path.name for path in cache.iterdir()} == {"set", "archives"}


def test_callers_at_the_same_time_unpack_once(publish, server):
    archive = publish("set.tar.gz", packed("tar.gz"))
    unpacked = []
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(locate, "set", archive, lambda what, done, total: unpacked.append(what))
            for _ in range(4)
        ]
    assert [contents(call.result()) for call in calls] == [FILES] * 4
    assert unpacked.count("unpacking set.tar.gz") == 2
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"top": "other"}, "has no folder other"), ({"inner": "b.tar"}, "No such file")],
)
def test_an_archive_without_what_is_looked_for_is_refused(publish, cache, more, reason):
    with pytest.raises(UsageError, match=reason):
        locate("set", publish("set.tar", packed("tar"), **more))
    assert [path.name for path in cache.iterdir()] == ["archives"]

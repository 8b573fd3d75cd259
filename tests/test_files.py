"""Files and folders that are written whole or not at all."""

import os

import pytest

from oasis_bench.system import Folder, UsageError, whole_file


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def interrupted_write(path):
    with whole_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt


def interrupted_folder(path):
    with Folder(path).whole() as part:
        (part / "a").write_bytes(b"a")
        raise KeyboardInterrupt


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    Folder(tmp_path).write("new/a", b"old")
    path = tmp_path / "new" / "a"
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert content_of(tmp_path / "new") == {"a": b"new"}


def test_a_file_whose_writer_fails_leaves_the_old_one_and_nothing_else(tmp_path):
    Folder(tmp_path).write("a", b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted_write(tmp_path / "a")
    assert content_of(tmp_path) == {"a": b"old"}


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "a"
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert content_of(tmp_path) == {"a": b"first"}


def test_a_folder_gets_its_name_when_it_is_complete(tmp_path):
    with Folder(tmp_path / "made").whole() as part:
        (part / "a").write_bytes(b"a")
        assert not (tmp_path / "made").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert content_of(tmp_path / "made") == {"a": b"a"}


def test_a_folder_whose_writer_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted_folder(tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_in_use_is_not_replaced(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"), Folder(tmp_path / "made").whole():
        pass
    assert content_of(tmp_path / "made") == {"a": b"old"}


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "link to a folder", "FIFO"])
def test_only_regular_files_below_a_folder_are_opened(tmp_path, kind):
    run, others = tmp_path / "run", tmp_path / "others"
    run.mkdir()
    others.mkdir()
    (others / "a").write_text("of others")
    name = "a"
    if kind == "FIFO":
        os.mkfifo(run / "a")
    elif kind == "link to a folder":
        (run / "tables").symlink_to(others)
        name = "tables/a"
    else:
        (run / "a").symlink_to(others / ("a" if kind == "link to a file" else "new"))
    told = f"^{run / name.split('/')[0]} is a {'FIFO' if kind == 'FIFO' else 'symbolic link'}: only"
    for use in (
        lambda: Folder(run).path(name),
        lambda: Folder(run).open(name),
        lambda: Folder(run).open(name, "ab"),
        lambda: Folder(run).write(name, b"new"),
    ):
        with pytest.raises(UsageError, match=told):
            use()
    assert content_of(others) == {"a": b"of others"}


def test_a_file_with_another_name_elsewhere_is_read_and_not_appended_to(tmp_path):
    run, others = tmp_path / "run", tmp_path / "others"
    run.mkdir()
    others.write_text("of others")
    os.link(others, run / "a")
    with pytest.raises(OSError, match="a hard link"):
        Folder(run).open("a", "ab")
    with Folder(run).open("a") as file:
        assert file.read() == b"of others"
    Folder(run).write("a", b"new")
    assert others.read_text() == "of others"


def test_a_folder_that_takes_no_file_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path, reason in ((tmp_path / "file", "is no folder"), (tmp_path / "file" / "a", "Not a d")):
        with pytest.raises(UsageError, match=f"cannot write to {path}: {reason}.*another --output"):
            Folder(path).make_writable()


@pytest.mark.parametrize("name", ["../a", "tables/../../a", "/tmp/a"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"is not below"):
        Folder(tmp_path / "run").path(name)

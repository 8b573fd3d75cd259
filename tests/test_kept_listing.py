"""The listing that is kept: shown again while it holds, made anew where anything of it changed."""

import json
import os
import subprocess
import sys
import time

import pytest

from oasis_bench.command_line import kept_listing
from oasis_bench.command_line.options import parse_words

TASK = """
from oasis_bench.tasks.retrieval import Retrieval

class Again(Retrieval):
    name, summary, citation = "again", {summary!r}, "none"
"""

LIST = """
import sys
from oasis_bench.__main__ import main
status = main()
print("slow" if "numpy" in sys.modules else "quick", file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def listing(tmp_path, monkeypatch):
    """Return what runs `list tasks` in a process of its own, and a package with a task."""
    package = tmp_path / "package"
    info = package / "again-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: again\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[oasis_bench.tasks]\nagain = again:Again\n")
    (package / "again.py").write_text(TASK.format(summary="once"))
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))

    def call(*more):
        words = ["list", "tasks", *map(str, more)]
        ended = subprocess.run(
            [sys.executable, "-c", LIST, *words], capture_output=True, text=True, check=True
        )
        return ended.stdout, ended.stderr.split()

    return call, package


def test_a_listing_is_shown_again_without_imports_until_what_it_tells_of_has_changed(listing):
    call, package = listing
    first, how = call()
    assert how == ["slow"]
    assert " once\n" in first
    assert call() == (first, ["quick"])
    (package / "again.py").write_text(TASK.format(summary="twice"))
    changed, how = call()
    assert how == ["slow"]
    assert changed == first.replace(" once\n", " twice\n")
    assert call() == (changed, ["quick"])
    (package / "extra-2.0.dist-info").mkdir()  # an extra is installed
    assert call() == (changed, ["slow"])
    (package / "again-1.0.dist-info" / "entry_points.txt").unlink()
    without, how = call()
    assert how == ["slow"]
    assert "again" not in without


def test_nothing_is_kept_of_plugin_files_or_of_what_is_broken(listing, plugins, tmp_path):
    call, package = listing
    plugin = ["--plugin", plugins / "reciprocal_rank.py"]
    assert "reciprocal-rank" in call(*plugin)[0]
    (package / "again.py").unlink()
    assert "BROKEN: " in call()[0]
    assert not (tmp_path / "cache").exists()
    (package / "again.py").write_text(TASK.format(summary="mended"))
    call()
    assert call()[1] == ["quick"]
    assert call(*plugin)[1] == ["slow"]


def test_a_damaged_listing_or_a_folder_that_takes_none_is_no_matter(command, tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    path = tmp_path / "listings" / "experiments.json"
    options = parse_words(["list", "experiments"])
    monkeypatch.setattr(kept_listing, "_BEGAN", 0)  # all files are newer: these may be others
    command("list", "experiments")
    assert not path.exists()
    monkeypatch.setattr(kept_listing, "_BEGAN", time.time_ns())
    status, out, errors = command("list", "experiments")
    assert (status, errors) == (0, [])
    assert kept_listing.kept_listing(options) == out.removesuffix("\n")
    content = path.read_bytes()
    sound = json.loads(content)
    changes = ({"text": 1}, {"text": None}, {"files": None}, {"files": {"\0": []}}, {"key": 0})
    changed = [json.dumps(sound | change).encode() for change in changes]
    damages = [content[:-9], b"", b"\xff", b"[" * 10**5, b"null", b"[]", b"{}", *changed]
    for damage in damages:
        path.write_bytes(damage)
        assert kept_listing.kept_listing(options) is None
    path.unlink()
    os.mkfifo(path)
    assert command("list", "experiments") == (status, out, errors)
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert command("list", "experiments") == (status, out, errors)

"""What `list` and wrong names need is remembered: quick, and anew after a change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oasis_bench
from oasis_bench.plugins import index

IMPORTS = """
import sys
from oasis_bench.command_line.entry import main
status = main(sys.argv[1:])
print(status, "sklearn" in sys.modules)
"""


def command(folder, *words):
    environment = {**os.environ, "OASIS_BENCH_CACHE": str(folder)}
    made = subprocess.run(
        [sys.executable, "-c", IMPORTS, *words], env=environment, capture_output=True, text=True
    )
    *lines, last = made.stdout.splitlines()
    return lines, last, made.stderr


@pytest.mark.parametrize(
    "words", [("list", "algorithms"), ("run", "--algorithms", "OASSIS"), ("run", "--dataset", "no")]
)
def test_a_second_command_says_the_same_without_the_imports_of_learners(tmp_path, words):
    first, second = (command(tmp_path, *words) for _ in range(2))
    assert first[0] == second[0]
    assert first[2] == second[2]
    status = "0" if words[0] == "list" else "2"
    assert (first[1], second[1]) == (f"{status} True", f"{status} False")


def test_a_change_of_a_file_makes_what_is_remembered_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    made = []

    def make():
        made.append(len(made))
        return made[-1]

    def asked():
        index._installed.cache_clear()
        return index.remembered("counts", make)

    assert [asked(), asked()] == [0, 0]
    path = Path(oasis_bench.__file__)
    times = path.stat()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    try:
        assert [asked(), asked()] == [1, 1]
    finally:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "index" / "counts.json").write_text("[")
    assert [asked(), asked()] == [2, 2]
    monkeypatch.syspath_prepend(tmp_path)  # as the working folder of `python -m`
    (tmp_path / "notes.txt").write_text("of the user")
    assert asked() == 2
    (tmp_path / "oasis_bench.egg-info").mkdir()  # in a checkout, on the path of `python -m` alone
    assert asked() == 2
    (tmp_path / "a_plugin-1.0.dist-info").mkdir()
    assert [asked(), asked()] == [3, 3]
    index._installed.cache_clear()

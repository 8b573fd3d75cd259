"""Disks that are really full: told in one line, and nothing is lost or left half-written."""

import re
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from small_runs import OnTrial, processes_of_session, wait_for

from oasis_bench.runs import read_run, resume_experiment
from oasis_bench.runs.store import FILE_NAME

BENCH = f"'{sys.executable}' -m oasis_bench"
RUN = f"{BENCH} run --algorithms Euclidean --classes 2 --use direct"


@pytest.fixture
def on_small_disk(tmp_path):
    """Return what runs a shell where the folder 'disk' is a disk of so many KiB."""
    (tmp_path / "disk").mkdir()
    mount = "mount -t tmpfs -o size={}k tmpfs disk"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    tried = subprocess.run([*command, mount.format(4)], cwd=tmp_path, capture_output=True)
    if tried.returncode:
        pytest.skip(f"a disk may not be mounted here: {tried.stderr.decode().strip()}")

    def run(n_kib, script):
        shell = subprocess.Popen(
            [*command, f"{mount.format(n_kib)} && {{ {script}; }}"],
            **{"cwd": tmp_path, "text": True, "start_new_session": True},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
        )
        out, err = shell.communicate(timeout=120)
        wait_for(lambda: not processes_of_session(shell.pid), 10)
        assert not processes_of_session(shell.pid)
        return shell.returncode, out, err

    return run


def test_a_run_that_fills_the_disk_goes_on_once_there_is_room(on_small_disk, tmp_path):
    script = f"{RUN} --partitions 16 --jobs 2 --output disk/run; echo $?; cp -r disk/run roomy"
    _, out, err = on_small_disk(240, script)
    assert out == "2\n"
    before, told, after = re.split(r"^(oasis-bench: .*\n)", err, flags=re.MULTILINE)
    assert "disk is full: what is finished is kept; free or correct it and go on with" in told
    assert re.sub(r"(\[\d+/16\] Euclidean,|rows are scaled by l2) .*\n", "", before) == after == ""
    with sqlite3.connect(tmp_path / "roomy" / FILE_NAME) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    full = read_run(tmp_path / "roomy").trials
    n_done = len(full)
    assert 1 <= n_done < 16
    told = []
    resume_experiment(tmp_path / "roomy", watcher=OnTrial(lambda *args: told.append(args[1:])))
    assert told[-1] == (16 - n_done, 16 - n_done)
    whole = read_run(tmp_path / "roomy").trials
    assert whole["status"].tolist() == ["ok"] * 16
    assert whole[:n_done].equals(full)


def test_a_run_that_cannot_begin_for_a_full_disk_leaves_nothing(on_small_disk):
    status, out, err = on_small_disk(40, f"{RUN} --output disk/run || find disk; exit 5")
    assert (status, out) == (5, "disk\n")
    assert re.fullmatch(
        r"oasis-bench: cannot write disk/run/results\.sqlite: database or disk is full: .*\n", err
    )


def test_a_report_that_finds_no_room_leaves_what_was_there(on_small_disk, write_run):
    folder = write_run("run", [{"partition": 0}, {"partition": 1}])
    _, out, err = on_small_disk(
        400,
        f"cp -r {folder} disk; echo before > disk/run/report.html; cat /dev/zero > disk/fill; "
        f"{BENCH} report disk/run; echo $?; cat disk/run/report.html; find disk -name '*.part'",
    )
    assert out.endswith("2\nbefore\n")
    assert re.search(r"^oasis-bench: cannot write the report to disk/run: No space left", err, re.M)


def test_kept_scores_that_fill_the_disk_leave_no_half_of_a_file(on_small_disk, tmp_path):
    script = f"{RUN} --partitions 40 --predictions --output disk/run; echo $?; cp -r disk/run roomy"
    _, out, err = on_small_disk(300, script)
    assert out == "2\n"
    assert re.search(r"^oasis-bench: cannot write disk/run/\S+: .*--resume disk/run", err, re.M)
    folder = tmp_path / "roomy"
    done = set(read_run(folder).trials["partition"])
    assert 1 <= len(done) < 40
    assert not list((folder / ".unfinished").iterdir())
    for partition in done:
        with np.load(folder / "predictions" / f"Euclidean_2_{partition}.npz") as scores:
            assert scores["scores_test"].shape == (50, 50)

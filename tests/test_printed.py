"""Streams that are closed, full, cut off or ASCII, names that hold escape sequences, odd paths."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from fake_runs import fake_trial
from small_runs import bench

from oasis_bench.command_line import main
from oasis_bench.notebook import RunResult
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError

SCRIPT = Path(sys.executable).with_name("oasis-bench")
RUN = "run --algorithms Euclidean --partitions 1 --no-traces --inner-folds 2 --output out"
ESCAPES = re.compile(r"[^\n\t -~\x85-\U0010ffff]|[\x80-\x9f]|\u202e")
"""What no terminal may get: C0 and C1 controls, DEL, and marks that turn text around."""

EVIL = "\x1b]0;owned\x07\x1b[2J\u202eA\x9b1m"


def shell(line, folder, **environment):
    """Run a line in which 'bench' is the command, by bash; return its status and what it said."""
    script = f"set -o pipefail; bench() {{ '{sys.executable}' -m oasis_bench \"$@\"; }}; {line}"
    done = subprocess.run(
        ["bash", "-c", script],
        **{"cwd": folder, "env": {**os.environ, **environment}, "timeout": 300},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
    )
    out, err = (text.decode("utf-8") for text in (done.stdout, done.stderr))
    assert "Traceback" not in err
    return done.returncode, out, err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("where", "status"),
    [(">&- 2>&- <&-", 0), ("2>&1 | head -1", 0), (">/dev/full 2>/dev/full", 2)],
)
def test_a_run_whose_output_goes_nowhere_is_whole_and_has_its_report(where, status, tmp_path):
    assert shell(f"bench {RUN} --classes 2 {where}", tmp_path)[0] == status
    assert read_run(tmp_path / "out").trials["status"].tolist() == ["ok"]
    assert "</html>" in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("words", "status"), [("list tasks", 0), ("no-verb", 2)])
def test_a_verb_says_by_its_status_alone_what_happened(words, status, tmp_path):
    assert shell(f"bench {words} 2>&- | head -0", tmp_path)[0] == status
    if os.path.exists("/dev/full"):
        found, _, err = shell(f"bench {words} >/dev/full", tmp_path)
        assert (found, err.count("cannot write the output: No space left")) == (2, status == 0)
    found, _, err = shell(f"'{SCRIPT}' {words}", tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (found, err.isascii()) == (status, True)


def test_a_path_that_is_not_utf8_is_taken_everywhere(write_run, plugins, tmp_path, monkeypatch):
    other = write_run("other", [fake_trial("Euclidean"), fake_trial("OASIS")])
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"o\xff")
    rows = "\n".join(f"{x},{x % 3},{'odd' if x % 2 else 'even'}" for x in range(60))
    Path(f"{odd}.csv").write_text(f"a,b,kind\n{rows}\n")
    Path(f"{odd}.py").write_bytes((plugins / "reciprocal_rank.py").read_bytes())
    out = f"{odd}/out"
    run = RUN.removesuffix("out") + f"{out} --dataset {odd}.csv --label kind --plugin {odd}.py"
    for words in (
        *(f"data describe {odd}.csv --label kind", f"{run} --predictions --save-models"),
        *(f"compare {out} {out}", f"run --resume {out} --plugin {odd}.py"),
        f"evaluate {out} --tasks reciprocal-rank --plugin {odd}.py",
        f"export {out} --format summary",
        *(f"ranks {out} {other} --output {odd}/ranks", f"list tasks --plugin {odd}.py"),
    ):
        assert main(words.split()) == 0, words
    assert shell("bench data describe $'o\\xff.csv' --label kind", tmp_path)[0] == 0
    assert "o\\udcff.csv" in Path(out, "report.html").read_text("utf-8")


PLUGIN = f"""
import numpy as np
from oasis_bench.algorithms import Euclidean
from oasis_bench.data.rows import LabelledRows
from oasis_bench.plugins.dataset import Dataset, DescribedColumn, Description
from oasis_bench.tasks.retrieval import Retrieval

class Own(Dataset):
    name = summary = citation = licence = home = items = {EVIL!r} + "data"

    def description(self):
        return Description([DescribedColumn(self.name, self.name, None)], 1, [self.name])

    def location(self):
        return self.name

    def load(self, progress=None):
        progress({EVIL!r}, 1, 2)
        y = np.repeat(np.arange(2), 30)
        rows = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
        return LabelledRows(rows, y, ({EVIL!r}, {EVIL!r} + "2"), remarks=({EVIL!r},))

class Fails(Euclidean):
    name = summary = citation = cost = {EVIL!r} + "fails"

    def fit(self, X, y=None):
        raise ValueError({EVIL!r})

class Asks(Retrieval):
    name = summary = citation = {EVIL!r} + "task"
"""


def printed(call, ours, theirs):
    """Return what a function prints into the other end of a pipe or a terminal."""
    parts = []

    def read():
        with suppress(OSError):  # the other end of a terminal has been closed
            while part := os.read(ours, 65536):
                parts.append(part)

    reader = Thread(target=read)
    reader.start()
    call(theirs)
    reader.join()
    os.close(ours)
    return b"".join(parts).decode("utf-8").replace("\r\n", "\n")


def test_no_escape_sequence_of_a_name_or_an_error_reaches_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(PLUGIN)
    own = ["--plugin", "evil.py"]
    data = ["--dataset", f"{EVIL}data", *own]
    run = ["run", *data, *RUN.split()[3:], "--algorithms", f"{EVIL}fails,Euclidean"]

    def in_process(words, terminal):
        with open(terminal, "w") as stream, suppress(SystemExit):
            monkeypatch.setattr(sys, "stdout", stream)
            monkeypatch.setattr(sys, "stderr", stream)
            main(words)

    def by_module(words, terminal):
        subprocess.run(bench(*words), stdout=terminal, stderr=terminal, timeout=300)
        os.close(terminal)

    text = printed(partial(in_process, [*run, "--output", "piped"]), *os.pipe())
    assert "owned" in text
    assert not ESCAPES.findall(text)
    for words in (
        *(["list", *own], ["data", "describe", f"{EVIL}data", *own], run),
        *(["report", "out"], ["compare", "out", "out"], ["check", "evil.py"]),
        *([f"{EVIL}verb"], ["run", "--tasks", EVIL]),
    ):
        call = by_module if words[0] == "check" else in_process  # it is a run of pytest
        text = printed(partial(call, words), *pty.openpty())
        assert "owned" in text or words[0] == "compare", words
        assert not ESCAPES.findall(text.replace("\r", "")), (words, text)
    result = RunResult(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    for text in (str(result), result._repr_html_(), page, str(UsageError(EVIL))):
        assert "owned" in text
        assert not ESCAPES.findall(text)

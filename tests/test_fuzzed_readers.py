"""Readers of files from strangers, given damaged files: a clear error or a result, soon.

Hypothesis damages a whole file of each kind: it replaces, removes and inserts bytes.  The examples
are the same each time; HYPOTHESIS_EXAMPLES asks for more of them.
"""

import gc
import os
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, write_run
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image
from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.datasets import TableFile
from oasis_bench.datasets.picture_files import UnusableImageError, read_image
from oasis_bench.experiment import Experiment, read_experiment
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import PeakMemory, UsageError

MOST_SECONDS, MOST_BYTES = 20.0, 200 * 2**20
"""Of one example; the files have some kilobytes.  CI's machine may be busy."""


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """Let the garbage collector, which `PeakMemory` calls, pass over what is imported: 0.3 s."""
    gc.freeze()
    yield
    gc.unfreeze()


fuzz = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "25")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

changes = st.lists(
    st.tuples(
        st.integers(0, 2**16), st.integers(0, 8), st.one_of(st.binary(max_size=8), st.just(b"\xff"))
    ),
    min_size=1,
    max_size=4,
)
"""At a place, so many bytes are replaced by others."""


def damaged(content, edits):
    """Return a file's content with each edit made, its place counted around the end."""
    for place, removed, inserted in edits:
        at = place % (len(content) + 1)
        content = content[:at] + inserted + content[at + removed :]
    return content


def read_in_bounds(read, kind):
    """Read; the outcome must be of type `kind` or a clear error, within the bounds."""
    memory, start = PeakMemory(), time.process_time()
    try:
        outcome = read()
    except (UsageError, UnusableImageError) as error:
        outcome = error
    assert isinstance(outcome, (kind, UsageError, UnusableImageError))
    if not isinstance(outcome, kind):
        assert 0 < len(str(outcome)) < 2000
        assert "\n" not in str(outcome)
    assert time.process_time() - start < MOST_SECONDS
    assert (memory.above_start() or 0) < MOST_BYTES


def table(ending, path):
    """Write a table of 12 rows."""
    X = np.arange(36.0).reshape(12, 3) / 7
    y = np.arange(12) % 3
    if ending == ".npz":
        np.savez(path, X=X, y=y)
    elif ending == ".sparse.npz":
        matrix = sparse.csr_array(X * (X > 2))
        sparse.save_npz(path, matrix)
        with zipfile.ZipFile(path, "a") as file, file.open("y.npy", "w") as stream:
            np.lib.format.write_array(stream, y)
    elif ending == ".parquet":
        pytest.importorskip("pyarrow")
        pd.DataFrame(X, columns=list("abc")).assign(label=y).to_parquet(path)
    elif ending == ".csv":
        pd.DataFrame(X, columns=list("abc")).assign(label=y).to_csv(path, index=False)
    else:
        lines = (f"{k} 1:{a} 3:{c}\n" for (a, _, c), k in zip(X, y, strict=True))
        path.write_text("".join(lines))


@pytest.mark.parametrize("ending", [".csv", ".npz", ".sparse.npz", ".parquet", ".svmlight"])
@fuzz
@given(edits=changes)
def test_a_damaged_table(tmp_path, ending, edits):
    path = tmp_path / f"t{ending}"
    table(ending, path)
    path.write_bytes(damaged(path.read_bytes(), edits))
    read_in_bounds(TableFile(path).load, LabelledRows)


@fuzz
@given(text=st.text(alphabet='label,;"\n\r\t 01.e-\0é=', max_size=60))
def test_a_csv_of_any_text(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8", newline="")
    read_in_bounds(TableFile(path).load, LabelledRows)


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm"])
@fuzz
@given(edits=changes)
def test_a_damaged_picture(tmp_path, kind, edits):
    path = tmp_path / f"p.{kind}"
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    path.write_bytes(damaged(path.read_bytes(), edits))
    read_in_bounds(lambda: read_image(path), Image.Image)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    trials = [fake_trial(learner, n_steps=1000) for learner in ("A", "B")]
    return write_run(tmp_path_factory.mktemp("fuzz") / "run", trials)


@fuzz
@given(edits=changes)
def test_a_damaged_store(tmp_path, store, edits):
    folder = tmp_path / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "results.sqlite").write_bytes(damaged((store / "results.sqlite").read_bytes(), edits))
    read_in_bounds(lambda: read_run(folder), StoredRun)


@fuzz
@given(edits=changes)
def test_a_damaged_experiment_file(tmp_path, edits):
    path = tmp_path / "e.toml"
    text = (
        'title = "T"\ndataset = "digits"\nclasses = [2, "all", ["1", "2"]]\npartitions = 5\n'
        'seed = 3\nbudget = "10m"\nscaling = ["l2", "none"]\n[learners.OASIS]\nC = [0.1, 1]\n'
        '[learners.mine]\nalgorithm = "LMNN"\nmemory = "4GiB"\n'
    )
    path.write_bytes(damaged(text.encode(), edits))
    read_in_bounds(lambda: read_experiment(str(path)), Experiment)

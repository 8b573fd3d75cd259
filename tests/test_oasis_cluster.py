"""Averaged learning on a real Dask cluster of processes, against a plain loop in this one."""

import os
import signal
import time
from functools import partial

import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from test_oasis_family import digits

from oasis_bench.algorithms import (
    OASIS,
    RCA,
    AveragedOASIS,
    LogDetOASIS,
    WhitenedOASIS,
    fit_on_cluster,
)
from oasis_bench.system import derive_seed


@pytest.fixture(scope="module")
def client():
    """Two processes; functions sent to them must be local ones, which travel by value."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def dealt(n_shards, form=np.asarray):
    """Return digits as pairs (X, y), every n-th row to a shard."""
    X, y = digits()
    return [(form(X[k::n_shards]), y[k::n_shards]) for k in range(n_shards)]


def written(folder, shards):
    """Write shards and return functions that open them, and note where they did."""

    def opener(k):
        def open_shard():
            with open(folder / "opened", "a") as log:
                log.write(f"{k} {os.getpid()}\n")
            return np.load(folder / f"X{k}.npy", mmap_mode="r"), np.load(folder / f"y{k}.npy")

        return open_shard

    for k, (X, y) in enumerate(shards):
        np.save(folder / f"X{k}.npy", X)
        np.save(folder / f"y{k}.npy", y)
    return [opener(k) for k in range(len(shards))]


def opened(folder):
    """Return who opened which shard: (shard, process)."""
    return [tuple(map(int, line.split())) for line in (folder / "opened").read_text().splitlines()]


def mean_of_fits(learner, shards):
    """Fit each shard in a plain loop and average: neighbours first, then neighbouring sums."""
    seed = check_random_state(learner.random_state).randint(2**31)
    matrices = []
    for k, (X, y) in enumerate(shards):
        fitted = clone(learner).set_params(random_state=derive_seed(seed, "shard", k)).fit(X, y)
        matrices.append(getattr(fitted, learner._learned))
    while len(matrices) > 1:
        matrices = [sum(matrices[k + 1 : k + 2], matrices[k]) for k in range(0, len(matrices), 2)]
    return matrices[0] / len(shards)


# ---- the mean ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        OASIS(n_steps=2000, random_state=3),
        LogDetOASIS(n_steps=300, random_state=3),
        AveragedOASIS(n_learners=2, n_steps=2000, random_state=3),
    ],
)
def test_the_cluster_gives_the_bits_of_a_plain_loop(client, learner):
    shards = dealt(5)
    found = fit_on_cluster(client, learner, shards)
    np.testing.assert_array_equal(getattr(found, learner._learned), mean_of_fits(learner, shards))
    assert found.n_steps_ == 5 * learner.n_steps * getattr(learner, "n_learners", 1)
    assert 0 < found.n_updates_ < found.n_steps_
    assert not hasattr(learner, learner._learned), "the learner that is given stays unfitted"


@pytest.mark.parametrize("learner", [WhitenedOASIS(), RCA()])
def test_a_learner_whose_matrices_have_no_common_start_is_refused(client, learner):
    with pytest.raises(TypeError, match=f"a {learner.name}: it must be of the OASIS family, and"):
        fit_on_cluster(client, learner, dealt(2))


@pytest.mark.parametrize("form", [lambda X: X.astype(np.float32), sparse.csr_array])
@pytest.mark.parametrize("n_shards", [1, 7])
def test_rows_keep_their_form(client, form, n_shards):
    learner, shards = OASIS(n_steps=500, random_state=0), dealt(n_shards, form)
    found = fit_on_cluster(client, learner, shards)
    assert found.bilinear_matrix_.dtype == shards[0][0].dtype
    np.testing.assert_array_equal(found.bilinear_matrix_, mean_of_fits(learner, shards))


# ---- workers -----------------------------------------------------------------------------


def test_workers_open_the_shards_and_progress_is_told(client, tmp_path):
    shards, told = dealt(4), []
    learner = OASIS(n_steps=500, random_state=0)
    found = fit_on_cluster(
        client, learner, written(tmp_path, shards), lambda *said: told.append(said)
    )
    np.testing.assert_array_equal(found.bilinear_matrix_, mean_of_fits(learner, shards))
    assert {process for _, process in opened(tmp_path)} <= set(client.run(os.getpid).values())
    assert told == [("shards learned", done, 4) for done in (1, 2, 3, 4)]


def test_a_worker_killed_in_the_midst_of_learning_does_not_change_the_model(client, tmp_path):
    client.wait_for_workers(2)
    learner, shards = OASIS(n_steps=300_000, random_state=0), dealt(7)

    def kill_the_worker_of_the_last_shard(what, done, total):
        if done == 2:
            os.kill(opened(tmp_path)[-1][1], signal.SIGKILL)

    found = fit_on_cluster(
        client, learner, written(tmp_path, shards), kill_the_worker_of_the_last_shard
    )
    expected = mean_of_fits(learner, shards)
    np.testing.assert_allclose(found.bilinear_matrix_, expected, rtol=0, atol=1e-11)
    assert len(opened(tmp_path)) > 1 + 7, "nothing was learned again: the worker died too late"


def test_an_interrupted_run_leaves_nothing_on_the_cluster(client):
    def interrupt(what, done, total):
        raise KeyboardInterrupt

    learner = OASIS(n_steps=100_000, random_state=0)
    with pytest.raises(KeyboardInterrupt) as interrupted:  # whose traceback holds the futures
        fit_on_cluster(client, learner, dealt(12), interrupt)
    deadline = time.monotonic() + 20
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < deadline, "tasks are left on the scheduler"
        time.sleep(0.05)
    assert interrupted.traceback


# ---- errors ------------------------------------------------------------------------------


def with_shard_2(change):
    shards = dealt(4)
    shards[2] = change(*shards[2])
    return shards


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.full(len(y), 7)), r"^shard 2: triplets need at least 2 classes.*7"),
        (
            lambda X, y: (X[:, :40], y),
            r"^shard 2: rows of 40 features in float64, but shard 0 has 64 in float64: make",
        ),
        (
            lambda X, y: (X.astype(np.float32), y),
            r"^shard 2: rows of 64 features in float32, but shard 0 has 64 in float64: make",
        ),
        (lambda X, y: (X, y[:-1]), "^shard 2: .*inconsistent numbers of samples"),
        (lambda X, y: partial(np.load, "/nowhere/X.npy"), "^shard 2: .*/nowhere/X.npy"),
    ],
)
def test_a_bad_shard_is_named(client, change, message):
    with pytest.raises(ValueError, match=message):
        fit_on_cluster(client, OASIS(n_steps=100, random_state=0), with_shard_2(change))

"""The web-scale experiment: what it keeps, goes on from and refuses."""

import json

import numpy as np
import pytest

from oasis_bench.algorithms import OASIS, MiniBatchOASIS
from oasis_bench.command_line import main
from oasis_bench.datasets.web_scale import WebScaleParameters, prepare_web_scale
from oasis_bench.plugins import load_model
from oasis_bench.system import UsageError
from oasis_bench.tasks import evaluate_ranking
from oasis_bench.web_scale import (
    Training,
    TrainingRecord,
    chance_level,
    test_queries as queries_of_tests,
    train,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* give no query:UserWarning")

TRAINING = Training(n_images=500, n_steps=2_000, batch_size=64, seed=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "data"
    return prepare_web_scale(folder, WebScaleParameters(600, 200, 400))


def final_model(folder, training=TRAINING):
    return load_model(folder / f"{training.name}.{training.n_steps}-steps.npz")


@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_training_is_partial_fit_on_the_first_images(data, tmp_path, batch_size):
    training = Training(500, 2_000, batch_size, seed=3)
    record = train(data, training, tmp_path, n_threads=2, n_queries=50)
    learner = (
        OASIS(random_state=3)
        if batch_size is None
        else MiniBatchOASIS(batch_size=64, random_state=3)
    )
    learner.partial_fit(data.train.X[:500], data.train.R[:500], n_steps=2_000)
    model = final_model(tmp_path, training)
    np.testing.assert_allclose(model.bilinear_matrix_, learner.bilinear_matrix_, atol=1e-5)
    last = record.checkpoints[-1]
    assert last.n_steps == 2_000
    assert 0 < last.n_queries <= 50  # some have no other relevant test image
    assert last.n_updates == pytest.approx(learner.n_updates_, abs=2)
    assert TrainingRecord.read_all(tmp_path) == [record]
    (path,) = tmp_path.glob("*.json")
    older = json.loads(path.read_text())
    for point in older["checkpoints"]:
        point["rank_seconds"] = 3.0
    path.write_text(json.dumps(older))
    assert TrainingRecord.read_all(tmp_path) == [record]


def test_the_first_checkpoint_is_the_cosine_and_all_queries_are_ranked_where_few(data, tmp_path):
    record = train(data, TRAINING, tmp_path, n_threads=1, n_queries=10**6)
    X, R = data.test.X, data.test.R
    cosine = evaluate_ranking(lambda q, g: (q @ g.T).toarray(), X, R, seed=0)
    first = record.checkpoints[0]
    assert first.n_steps == first.n_updates == 0
    assert first.mean_average_precision == pytest.approx(cosine.mean_average_precision, abs=1e-6)
    assert first.precision_at["10"] == pytest.approx(cosine.precision_at_k[9], abs=1e-6)


def test_steps_and_the_chance_level_are_said_before_the_first_training(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    small = "--images 600 --test-images 200 --visterms 400 --steps-per-image 2 --queries 50"
    command = ["web-scale", *small.split(), "--batch", "64,exact", "--output", "out"]
    assert main(command) == 0
    out, errors = capfd.readouterr()
    folder = tmp_path / "cache" / "web-scale" / "600-200-400-0"
    assert "learning: 2,400 steps in 2 trainings;" in errors  # 600 images, 2 each
    assert out == "report: out/web-scale.html\n"
    assert (tmp_path / "out" / "web-scale.html").exists()
    assert main(command) == 0
    assert "generating" not in (again := capfd.readouterr().err)
    assert "1,200 steps, " not in again  # nothing was left to do

    data = prepare_web_scale(folder, WebScaleParameters(600, 200, 400))
    found = evaluate_ranking(
        lambda q, g: np.zeros((q.shape[0], g.shape[0])),
        *(data.test.X, data.test.R, 0),
        queries=queries_of_tests(200, 50),
    )
    assert chance_level(data, 50) == pytest.approx(found.chance_level)
    lines = errors.splitlines()
    chance = lines.index(f"chance: mAP {found.chance_level:.4f}")
    assert chance < next(i for i, line in enumerate(lines) if line.startswith("images-600"))


def test_checkpoints_are_whole_batches_but_for_the_last():
    points = Training(10_000, 700_000, 4096, 0).checkpoints()
    assert points[0] == 0
    assert points[-1] == 700_000
    assert all(n % 4096 == 0 for n in points[:-1])
    assert points == sorted(set(points))
    assert Training(10, 700, 65_536, 0).checkpoints() == [0, 700]


def test_an_interrupted_training_goes_on_to_the_same_bits(data, tmp_path):
    whole = train(data, TRAINING, tmp_path / "whole", n_threads=1, n_queries=50)

    def interrupt(words, seconds_left):
        if "512 steps" in words:
            raise KeyboardInterrupt

    mine = tmp_path / "two" / f"{TRAINING.name}.mine-steps.npz"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(KeyboardInterrupt):
        train(data, TRAINING, tmp_path / "two", 1, 50, on_checkpoint=interrupt)
    begun = TrainingRecord.read_all(tmp_path / "two")[0].checkpoints
    told = []
    parts = train(
        *(data, TRAINING, tmp_path / "two", 1, 50),
        on_checkpoint=lambda words, seconds_left: told.append(words),
    )
    assert told == [f"{TRAINING.name}: {it.words}" for it in parts.checkpoints[len(begun) :]]
    assert 0 < len(begun) < len(whole.checkpoints)
    np.testing.assert_array_equal(
        final_model(tmp_path / "two").bilinear_matrix_,
        final_model(tmp_path / "whole").bilinear_matrix_,
    )
    assert [p.mean_average_precision for p in parts.checkpoints] == [
        p.mean_average_precision for p in whole.checkpoints
    ]
    assert mine.exists()
    mine.unlink()
    assert len(list((tmp_path / "two").glob("*.npz"))) == 1


def test_what_would_mix_unlike_trainings_is_refused(data, tmp_path):
    train(data, TRAINING, tmp_path, n_threads=1, n_queries=50)
    other = prepare_web_scale(tmp_path / "other", WebScaleParameters(600, 150, 400))
    with pytest.raises(UsageError, match="on other data"):
        train(other, TRAINING, tmp_path, n_threads=1, n_queries=50)
    with pytest.raises(UsageError, match=r"was measured by \d+ queries, not \d+: give as many"):
        train(data, TRAINING, tmp_path, n_threads=1, n_queries=20)
    with pytest.raises(UsageError, match="begun with threads = 1, not 2"):
        train(data, TRAINING, tmp_path, n_threads=2, n_queries=50)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(UsageError, match="is no record of a training"):
        TrainingRecord.read_all(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--batch", "0"], "'0': a whole number of at least 1 is needed"),
        (["--images", "500,9"], "--images: '9': a whole number of at least 10 is needed"),
        (["--seeds", "1000000000"], "--seeds: '1000000000': a whole number from 1 to 1000"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    assert main(["web-scale", *words, "--output", str(tmp_path / "out")]) == 2
    answer = capsys.readouterr().err
    assert told in answer
    assert answer.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


SMALL = ["web-scale", "--images", "10", "--test-images", "20", "--visterms", "400"]


def test_queries_of_which_none_has_a_relevant_other_are_refused_before_training(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    test = prepare_web_scale(tmp_path / "data", WebScaleParameters(10, 20, 400)).test.R.toarray()
    (query,) = queries_of_tests(20, 1)
    assert (test[query] @ test.T > 0).sum() == 1  # relevant to itself alone
    assert main([*SMALL, "--queries", "1", "--output", str(tmp_path / "out")]) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert "--queries 1, --test-images 20: no query has a relevant other" in line
    assert list((tmp_path / "out").iterdir()) == []

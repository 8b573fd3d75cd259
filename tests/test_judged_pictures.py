"""The data sets whose pictures people judged: their tables, small and real."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged_files import judged_by_colour
from PIL import Image
from report_helpers import measured
from skimage.feature import local_binary_pattern
from test_image_datasets import needs

from oasis_bench.datasets import MaterialAppearance, SimilarityTriplets
from oasis_bench.datasets.features import asked_features, feature_rows
from oasis_bench.datasets.picture_files import hashed_pictures
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.notebook import RunResult
from oasis_bench.plugins import Registry
from oasis_bench.reports import write_report
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.system import UsageError, no_progress


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An OASIS_BENCH_DATA with a folder of each data set, four pictures in it and no table."""
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    for name in ("similarity-triplets", "material-appearance"):
        (tmp_path / name / "images").mkdir(parents=True)
        for i, letter in enumerate("abcd"):
            pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / "images" / f"{letter}.png")
    return tmp_path


TRIPLETS = """\
text_query,query,positive,negative
zebra,images/b.png,images/a.png,images/d.png
"null",images/c.png,images/a.png,images/b.png
zebra,images/b.png,images/b.png,images/d.png
"""

JUDGEMENTS = """\
reference,a,b,votes_a,votes_b
c.png,a.png,b.png,3,1
c.png,d.png,a.png,2,2
a.png,b.png,d.png,5,0
"""


def test_triplets_of_web_pictures_are_grouped_by_their_text_query(data):
    (data / "similarity-triplets" / "triplets.csv").write_text(TRIPLETS)
    rows = SimilarityTriplets(pixels=4).load()
    assert rows.class_names == ("null", "zebra")
    assert [path.name for path in rows.images] == ["a.png", "b.png", "c.png", "d.png"]
    assert rows.y.tolist() == [0, 0, 0, 1]  # a and b were found for both; the first counts
    assert rows.judged.items.tolist() == [[1, 0, 3], [2, 0, 1]]
    assert rows.judged.groups.tolist() == [1, 0]
    assert rows.judged.votes is None
    assert rows.left_out == ("left out: 1 triplets with a picture twice",)
    text = "query,positive,negative,comment\nb.png,a.png,c.png,\nc.png,a.png,b.png,sure\n"
    assert own(data, text).load().judged.items.tolist() == [[1, 0, 2], [2, 0, 1]]
    assert rows.pixels.shape == (4, 4, 4, 3)


def test_a_text_query_whose_pictures_are_all_of_earlier_ones_is_no_class(data):
    more = "pony,images/c.png,images/b.png,images/a.png\n"  # they are of "null"
    (data / "similarity-triplets" / "triplets.csv").write_text(TRIPLETS + more)
    rows = SimilarityTriplets(pixels=4).load()
    assert rows.class_names == ("null", "zebra")
    assert rows.y.tolist() == [0, 0, 0, 1]
    assert rows.judged.groups.tolist() == [2, 0, 1]


def test_judgements_of_materials_keep_their_votes(data):
    (data / "material-appearance" / "judgements.csv").write_text(JUDGEMENTS)
    rows = MaterialAppearance().load()
    assert rows.class_names == ("a", "b", "c", "d")
    assert rows.y.tolist() == [0, 1, 2, 3]
    assert rows.judged.items.tolist() == [[2, 0, 1], [2, 3, 0], [0, 1, 3]]
    assert rows.judged.votes.tolist() == [[3, 1], [2, 2], [5, 0]]
    assert rows.judged.groups.tolist() == [2, 2, 0]
    assert rows.pixels is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("reference,a,b\nc.png,a.png,b.png\n", "there is no column votes_a: reference, a"),
        (JUDGEMENTS.replace("5,0", "5,-1"), "a vote '-1': a whole number is needed"),
        (JUDGEMENTS.replace("5,0", "0,0"), "judged triplet 2 has no vote"),
        (JUDGEMENTS.replace("5,0", "5"), "line 4 has an empty votes_b: fill it in, or leave it"),
        (JUDGEMENTS.replace("d.png", "e.png"), r"images/e\.png cannot be used: No such file"),
        ("", "judgements.csv: CSV cannot be read .No columns to parse.*give a line of names"),
    ],
)
def test_a_table_that_is_damaged_is_refused_in_one_line(data, text, line):
    (data / "material-appearance" / "judgements.csv").write_text(text)
    with pytest.raises(UsageError, match=line) as error:
        MaterialAppearance().load()
    assert "\n" not in str(error.value)


def test_where_it_is_missing_the_place_is_told(data):
    assert MaterialAppearance().location() is None
    with pytest.raises(UsageError, match=r"triplets\.csv: there is no such file: put trip"):
        SimilarityTriplets().load()


def test_rows_are_histograms_of_the_four_quarters(data):
    path = data / "material-appearance" / "images" / "a.png"
    pictures = hashed_pictures([path], no_progress)
    (row,) = feature_rows(asked_features("histograms"), pictures, no_progress, list).X
    assert row.shape == (4 * (59 + 64),)
    small = Image.open(path).resize((128, 128), Image.Resampling.BILINEAR)
    codes = local_binary_pattern(np.asarray(small.convert("L")), 8, 2, "nri_uniform").astype(int)
    distances = abs(np.asarray(small)[..., None] - np.array([32.0, 96.0, 160.0, 224.0]))
    levels = distances.argmin(axis=-1)  # of equally near ones the first
    colours = levels[..., 0] * 16 + levels[..., 1] * 4 + levels[..., 2]
    quarters = [np.s_[i : i + 64, j : j + 64] for i in (0, 64) for j in (0, 64)]
    for quarter, part in zip(quarters, row.reshape(4, -1), strict=True):
        np.testing.assert_allclose(
            part[59:], np.bincount(colours[quarter].ravel(), minlength=64) / 4096
        )
        expected = np.bincount(codes[quarter].ravel(), minlength=59) / 4096
        np.testing.assert_allclose(part[:59], expected, atol=2 / 4096)


@needs("similarity-triplets")
def test_the_real_triplets():
    rows = SimilarityTriplets().load()
    assert rows.X.shape == (2672, 492)
    assert len(rows.class_names) == 222
    assert len(rows.judged.items) == 1004 - 2  # two have their query as the positive
    assert rows.left_out == ("left out: 2 triplets with a picture twice",)
    # All but one picture were found for one text query: their class is that of their triplets.
    assert (rows.y[rows.judged.items] != rows.judged.groups[:, None]).sum() <= 3


@needs("material-appearance")
def test_the_real_judgements():
    rows = MaterialAppearance().load()
    assert rows.X.shape == (100, 492)
    assert len(set(rows.class_names)) == 100
    votes = rows.judged.votes
    assert votes.shape == (22801, 2)
    assert votes.sum() == 92892
    assert votes.max(axis=1).sum() / votes.sum() == pytest.approx(0.838, abs=5e-4)
    assert (votes[:, 0] == votes[:, 1]).any()  # ties are kept
    assert len(np.unique(rows.judged.groups)) == 100


OWN = """\
query,positive,negative,votes_positive,votes_negative
b.png,a.png,d.png,2,1
c.png,a.png,b.png,3,0
b.png,c.png,d.png,1,2
b.png,b.png,d.png,1,2
"""


def own(data, text, name="triplets.csv"):
    """The data set of a CSV file beside the pictures, by its path."""
    (data / "similarity-triplets" / "images" / name).write_text(text)
    return Registry.load().open_dataset(str(data / "similarity-triplets" / "images" / name))


def test_triplets_of_the_user_s_own_need_three_columns(data):
    rows = own(data, "\n".join(line.rsplit(",", 2)[0] for line in OWN.splitlines())).load()
    assert [path.name for path in rows.images] == ["a.png", "b.png", "c.png", "d.png"]
    assert rows.y.tolist() == [0, 1, 2, 3]
    assert rows.class_names == ("a", "b", "c", "d")
    assert rows.judged.items.tolist() == [[1, 0, 3], [2, 0, 1], [1, 2, 3]]
    assert rows.judged.groups.tolist() == [1, 2, 1]
    assert rows.judged.votes is None
    assert rows.left_out == ("left out: 1 triplets with a picture twice",)


def test_they_may_have_votes_and_groups_and_lie_in_a_folder(data):
    own(data, OWN)
    folder = str(data / "similarity-triplets" / "images")
    rows = Registry.load().open_dataset(folder).load()
    assert rows.judged.votes.tolist() == [[2, 1], [3, 0], [1, 2]]
    (data / "my.csv").write_text(TRIPLETS.replace("images/", ""))
    dataset = Registry.load().open_dataset(str(data / "my.csv"), {"images": folder})
    rows = dataset.load()
    assert rows.judged.groups.tolist() == [1, 0]
    assert rows.class_names == ("null", "zebra")


def test_the_first_triplets_may_be_taken_alone(data):
    own(data, "query,positive,negative\nc.png,a.png,b.png\nb.png,c.png,a.png\nb.png,a.png,d.png\n")
    table = str(data / "similarity-triplets" / "images" / "triplets.csv")
    rows = Registry.load().open_dataset(table, {"max_triplets": 2}).load()
    assert [path.name for path in rows.images] == ["a.png", "b.png", "c.png"]
    assert rows.judged.items.tolist() == [[2, 0, 1], [1, 2, 0]]
    with pytest.raises(UsageError, match="max_triplets = 0: a whole number of at least 1"):
        SimilarityTriplets(max_triplets=0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (OWN.splitlines()[0], r"triplets\.csv: there are no triplets below the names"),
        ("query,positive,negative\nb.png,a.png,a.png\n", "each triplet has a picture twice"),
        ("query,positive,negative,votes_positive\nb.png,a.png,c.png,1\n", "no column votes_neg"),
    ],
)
def test_what_is_wrong_with_them_is_told(data, text, line):
    with pytest.raises(UsageError, match=line):
        own(data, text).load()


def test_a_run_weighs_kinds_of_features_and_takes_some_of_them(data):
    """Euclidean on colours, and the golden feature, find out what the triplets are judged by."""
    pytest.importorskip("cv2", reason='pip install -e ".[handmade]" is needed')
    judged_by_colour(data)
    learners = {
        "colours": LearnerSpec("Euclidean", features="lab"),
        "patterns": LearnerSpec("Euclidean", features="lbp"),
        "weighed patterns": LearnerSpec("GoldenFeature", {"kinds": "lbp", "C": 1.0}),
        "both": LearnerSpec("GoldenFeature", {"C": 1.0}),
    }
    options = {"features": "lab+lbp"}
    experiment = Experiment(
        *("Kinds", str(data / "my.csv"), learners, options),
        tasks=("judged-triplets",),
        partitions=1,
        inner_folds=2,
        test_share=0.5,
    )
    assert run_experiment(experiment, data / "run") == 0
    run = read_run(data / "run")
    found = measured(run, "similarity precision", by="learner")
    assert found.to_dict() == {"colours": 1, "patterns": 0, "weighed patterns": 0, "both": 1}
    dimensions = run.trials.set_index("learner")["n_features"]
    assert dimensions[["colours", "patterns", "both"]].tolist() == [648, 944, 648 + 944]
    alone = replace(experiment, learners={"colours": learners["colours"]})
    assert run_experiment(alone, data / "alone") == 0
    assert RunResult(data / "alone").best()[-1].n_features_in_ == 648
    wrong = replace(experiment, learners={"none": LearnerSpec("Euclidean", features="hog")})
    with pytest.raises(UsageError, match="unknown kind of patches 'hog'"):
        run_experiment(wrong, data / "wrong")
    plain = replace(experiment, dataset_options={}, learners=wrong.learners)
    with pytest.raises(UsageError, match="no kinds of features to choose from"):
        run_experiment(plain, data / "wrong")


BY_BOTH = Path(__file__).parent / "plugins" / "patches_and_pixels.py"


def test_a_learner_gets_pixels_beside_features_and_labels_beside_triplets(data):
    pytest.importorskip("cv2", reason='pip install -e ".[handmade]" is needed')
    judged_by_colour(data)
    experiment = Experiment(
        *("Both", str(data / "my.csv"), {"KindOfColour": LearnerSpec("KindOfColour")}),
        {"features": "lab+lbp", "pixels": 16},
        tasks=("judged-triplets",),
        partitions=1,
        inner_folds=2,
        test_share=0.5,
    )
    assert run_experiment(experiment, data / "run", How(plugin_files=[BY_BOTH])) == 0
    run = read_run(data / "run")
    assert measured(run, "similarity precision", by="learner").to_dict() == {"KindOfColour": 1}
    assert run.trials["n_features"].tolist() == [648 + 944 + 16 * 16 * 3]
    report = " ".join(write_report(data / "run").read_text().split())
    assert "Nothing is scaled: no learner takes" in report
    assert not [line for line in run.info.remarks if line.startswith("warning")]
    without = replace(experiment, dataset_options={"features": "lab+lbp"})
    with pytest.raises(
        UsageError, match="makes pixels only on request: give --data-option pixels="
    ):
        run_experiment(without, data / "wrong", How(plugin_files=[BY_BOTH]))

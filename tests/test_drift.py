"""Notes of `evaluate` on rows that are like, or unlike, those that a model was fitted on."""

import re

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from test_evaluate import evaluate

import oasis_bench
from oasis_bench.plugins import load_model

DIGITS = load_digits(as_frame=True).frame.iloc[:, 16:].sample(frac=1, random_state=0)
DIGITS["hand"] = np.random.default_rng(0).choice(["left", "right"], len(DIGITS))
TRAIN, NEW = DIGITS[:700], DIGITS[700:1200]
COLUMNS = [name for name in DIGITS if name.startswith("pixel")]
WORDS = ["--classes", "4", "--partitions", "1", "--train", "12", "--test", "8"]


@pytest.fixture(scope="module", params=["posterior", "direct"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("drift") / f"{request.param}.npz"
    how = {"search": 2, "inner_folds": 2, "scaling": "standard", "blend": "off"}
    table = TRAIN if request.param == "posterior" else TRAIN.drop(columns="hand")
    oasis_bench.fit(table, "LDA", label="target", use=request.param, output=path, **how)
    return path


def notes(model, table, tmp_path, capsys):
    """Return the notes on a table, but for that on the sizes of classes."""
    table.to_csv(tmp_path / "new.csv", index=False)
    words = ["--dataset", tmp_path / "new.csv", "--label", "target", "--output", tmp_path / "run"]
    assert evaluate(model, *words, *WORDS) == 0
    told = capsys.readouterr().err
    return re.findall(rf"^{model.stem}: (.+)$", told, re.MULTILINE)


def moved(table):
    return table.assign(**{name: table[name] + 6 for name in COLUMNS[::2]})


@pytest.mark.parametrize("change", [lambda table: table, moved], ids=["equal", "moved"])
def test_an_equal_table_is_alike_and_a_moved_one_is_not(model, change, tmp_path, capsys):
    table = change(NEW)
    (note,) = notes(model, table, tmp_path, capsys)
    read = load_model(model)
    if model.stem == "posterior":
        known = read[-1].rows_
        new = read[:-1].transform(table.drop(columns="target"))
        own = np.sort(cdist(known, known))[:, 1]
        share = np.mean(cdist(new, known).min(axis=1) > np.quantile(own, 0.95))
        assert note.startswith(f"{share:.0%} of the rows are farther from the nearest training row")
        advice = "fit it anew with some of these rows"
    else:
        scaler = StandardScaler().fit(TRAIN[COLUMNS])
        varying = scaler.var_ > 0
        most = np.abs(scaler.transform(table[COLUMNS])[:, varying].mean(axis=0)).max()
        assert note.startswith(f"the mean of a column is up to {most:.2g} standard deviations from")
        advice = "check its unit, or fit the model anew"
    assert note.endswith(f": {'they are alike' if change is not moved else advice}")


def test_categories_that_no_training_row_has_are_counted(model, tmp_path, capsys):
    table = NEW.assign(hand=np.where(np.arange(len(NEW)) % 4, NEW["hand"], "foot"))
    found = notes(model, table, tmp_path, capsys)
    if model.stem == "posterior":  # the other model has not this column
        assert found[0] == "25% of column 'hand' are categories that no training row has"
    assert len(found) == 1 + (model.stem == "posterior")

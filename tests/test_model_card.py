"""Model cards: what `model describe` says of a file of `fit`, of a run, and of `save_model`."""

import re

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris

import oasis_bench
from oasis_bench.algorithms import LDA
from oasis_bench.command_line import main
from oasis_bench.plugins import load_model, save_model
from oasis_bench.runs import read_run

X, Y = load_iris(return_X_y=True)


def facts(path, capsys, *words):
    """Return the facts of a card by their names."""
    assert main(["model", "describe", str(path), *words]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"# {path.name}\n\n- learner: ")
    return dict(re.findall(r"^- (.+?): ((?:.+\n(?:  .+\n)*))", text, re.MULTILINE))


def test_a_model_of_fit_has_its_data_licence_and_expected_quality(tmp_path, capsys):
    path = tmp_path / "m.npz"
    words = ["--learner", "LDA", "--inner-folds", "2", "--search", "2", "--output", str(path)]
    assert main(["fit", "digits", *words]) == 0
    said = capsys.readouterr().out
    card, model = facts(path, capsys), load_model(path)
    lines = said.splitlines()[:-1]  # but the last: where the file is
    assert [line.strip() for line in card["fit"].splitlines()] == [line.strip() for line in lines]
    assert card["licence of the data"] == "CC BY 4.0\n"
    assert (card["data"], card["training rows"]) == ("digits\n", "1,797\n")
    assert card["made by"] == f"oasis-bench {oasis_bench.__version__}\n"
    assert f"'shrinkage': {model[-1].learner.shrinkage!r}" in card["hyper-parameters"]
    assert card["use"] == f"posterior, tau {model[-1].tau:g}\n"
    assert card["blend"].startswith(f"weight {model.blend_.weight:g}, ")
    assert card["same_probability"] == "not calibrated\n"
    assert main(["model", "describe", str(path), "--output", str(tmp_path / "card.md")]) == 0
    assert main(["model", "describe", str(path)]) == 0
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == capsys.readouterr().out


def test_a_model_of_a_run_has_the_measures_of_its_learner_with_their_intervals(tmp_path, capsys):
    run = tmp_path / "run"
    file = tmp_path / "own.toml"
    file.write_text(
        'title = "T"\ndataset = "digits"\n'
        '[learners."my_LDA (own)"]\nalgorithm = "LDA"\n[learners.Euclidean]\n'
    )
    words = ["--experiment", str(file), "--classes", "4"]
    words += ["--partitions", "5", "--train", "12", "--test", "8", "--inner-folds", "2"]
    words += ["--search", "2", "--no-traces", "--save-models", "--output", str(run)]
    assert main(["run", *words]) == 0
    capsys.readouterr()
    card = facts(next((run / "models").glob("my-LDA--own-_*_0.npz")), capsys)
    stored = read_run(run)
    own = stored.measures.query("learner == 'my_LDA (own)' and measure == 'mAP'")["value"]
    rho = stored.trials["rho"].mean()
    half = stats.t.ppf(0.975, 4) * own.std() * np.sqrt(1 / 5 + rho / (1 - rho))
    (name,) = [name for name in card if ", mAP: " in f"{name}: "]
    mean, low, high, n = map(float, re.findall(r"\d+(?:\.\d+)?", card[name].rpartition("n: ")[2]))
    assert (mean, n) == (pytest.approx(own.mean(), abs=1e-3), 5)
    assert low == pytest.approx(own.mean() - half, abs=1e-3)
    assert high == pytest.approx(min(own.mean() + half, 1), abs=1e-3)
    assert card["licence of the data"] == "CC BY 4.0\n"
    assert card["made by"] == f"oasis-bench {oasis_bench.__version__}\n"


def test_a_model_of_a_program_says_what_is_not_known(tmp_path, capsys):
    save_model(LDA(shrinkage=0.5).fit(X, Y), tmp_path / "lda.npz")
    card = facts(tmp_path / "lda.npz", capsys)
    assert card["training rows"] == "not known\n"
    assert (card["use"], card["blend"]) == ("direct\n", "none\n")
    assert card["rows are scaled"] == "not known\n"
    assert "'shrinkage': 0.5" in card["hyper-parameters"]
    assert "licence of the data" not in card

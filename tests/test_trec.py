"""Run and qrels files in TREC's format: trec_eval measures in them what the store has."""

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from oasis_bench.command_line import main
from oasis_bench.runs import read_run

COARSE = Path(__file__).parent / "plugins" / "coarse.py"
SIZES = ["--classes", "6", "--partitions", "2", "--train", "12", "--test", "20"]

TREC_NAMES = {"mAP": "map", "R-precision": "Rprec", "nDCG": "ndcg"}
TREC_NAMES_AT_K = {"precision": "P", "recall": "success"}


def run(folder, *words):
    words = ["--algorithms", "Coarse,Euclidean", "--inner-folds", "2", "--no-traces", *words]
    assert main(["run", *words, "--plugin", str(COARSE), "--output", str(folder)]) == 0


def export(folder, *words):
    return main(
        ["export", str(folder), "--format", "trec", "--plugin", str(COARSE), *map(str, words)]
    )


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A run of two tasks of retrieval that kept its scores."""
    folder = tmp_path_factory.mktemp("trec") / "digits"
    tasks = ["--tasks", "retrieval,unseen-classes,classification"]
    run(folder, *SIZES, *tasks, "--predictions")
    return folder


def trec_name(measure, k):
    return TREC_NAMES.get(measure) or f"{TREC_NAMES_AT_K[measure]}_{k:.0f}"


def judged_by_trec_eval(folder, stem, names):
    """Return the mean over queries of each measure, and how many queries there are."""
    with (folder / f"{stem}.run").open() as lines:
        ranking = pytrec_eval.parse_run(lines)
    with (folder / f"{stem}.qrels").open() as lines:
        relevant = pytrec_eval.parse_qrel(lines)
    of_queries = pytrec_eval.RelevanceEvaluator(relevant, set(names)).evaluate(ranking)
    assert set(ranking) == set(relevant) == set(of_queries)
    means = {name: np.mean([query[name] for query in of_queries.values()]) for name in names}
    return means, len(of_queries)


def compare(folder, stems, task):
    """Compare the store's measures of a task with those of trec_eval in exported files."""
    record = read_run(folder)
    keys = ["learner", "partition"]
    answers = record.answers[record.answers["task"] == task].set_index(keys)
    measures = record.measures[record.measures["task"] == task]
    measures = measures[measures["measure"] != "MAP@R"]  # trec_eval has none
    assert len(stems) == len(answers) == 4
    for key, own in measures.groupby(keys):
        names = [trec_name(*pair) for pair in zip(own["measure"], own["k"], strict=True)]
        means, n_queries = judged_by_trec_eval(folder / "export", stems[key], names)
        assert n_queries == answers.loc[key, "n_queries"]
        assert [means[name] for name in names] == pytest.approx(own["value"].tolist(), abs=1e-12)


@pytest.mark.parametrize("task", ["retrieval", "unseen-classes"])
def test_trec_eval_measures_what_the_store_has_also_among_ties(digits, task):
    with np.load(digits / "predictions" / "Coarse_6_0.npz") as scores:
        assert all(len(np.unique(row)) <= 11 for row in scores["scores_test"])
    assert export(digits) == 0
    end = "" if task == "retrieval" else f"_{task}"
    learners = [(learner, partition) for learner in ("Coarse", "Euclidean") for partition in (0, 1)]
    compare(digits, {key: "{}_6_{}".format(*key) + end for key in learners}, task)


def test_items_are_relevant_that_share_a_word_and_queries_without_any_are_left_out(tmp_path):
    folder = tmp_path / "words"
    run(folder, "--dataset", "words", "--test-share", "0.5", "--partitions", "2", "--predictions")
    answers = read_run(folder).answers
    assert (answers["n_left_out"] > 0).all()
    assert export(folder) == 0
    learners = [(learner, partition) for learner in ("Coarse", "Euclidean") for partition in (0, 1)]
    compare(folder, {key: "{}_all_{}".format(*key) for key in learners}, "retrieval")

"""Compares rules that tune the weight of a blend: the tables of docs/blend-rules.md.

python docs/blend_rules.py rules runs/blend-rules.jsonl    # measure what the file lacks, then print
python docs/blend_rules.py axes runs/blend-axes.jsonl      # the same, of the second comparison
python docs/blend_rules.py defaults runs/blend-defaults.jsonl    # of the third

All together take less than an hour of a core, and need the folder OASIS_BENCH_DATA.
Hyper-parameters are tuned as in a run, with the scores of the learner alone.  Then the winner's
blends are evaluated on the inner folds and on the test items, at each weight.  The rules see the
former only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as t_distribution

from oasis_bench.algorithms import MMC, RCA, Covariance
from oasis_bench.data import apply_steps
from oasis_bench.experiment import Experiment, LearnerSpec, Plan, TrialSpec
from oasis_bench.plugins import Blend, MetricLearner, Model
from oasis_bench.scorers import similarity_of
from oasis_bench.tasks import evaluate_ranking
from oasis_bench.trial import Assignment, FitData, draw_items, wall
from oasis_bench.trial.learner_side.inner_folds import InnerFolds, make_learner
from oasis_bench.trial.learner_side.tuning import Tuning

ON_AXES = ("RCA", "LFDA", "MMC", "Covariance")
N_FOLDS, MORE_FOLDS, HARM = 3, 6, -5.0
TASKS = {"seen": "retrieval", "unseen": "unseen-classes"}


class Corpus(NamedTuple):
    """A data set, its scaling, and training and test rows a class for seen and unseen classes."""

    dataset: str
    scaling: str
    seen: tuple[int, int]
    unseen: tuple[int, int] | None
    classes: int | str = "all"
    options: Mapping[str, Any] = {}


LITE0 = {"features": "efficientnet-lite0"}
SERIES = {"drop": "part"}


def table(name: str) -> str:
    """Return the path of a table."""
    return str(Path(os.environ["OASIS_BENCH_DATA"], name))


def corpora() -> dict[str, Corpus]:
    """Return the data sets; on the first seven the final fit has just more rows than features."""
    return {
        "caltech256, 512": Corpus("caltech256", "l2+pca512", (60, 25), (60, 25), 10, LITE0),
        "caltech256, 256": Corpus("caltech256", "l2+pca256", (30, 30), (60, 25), 10, LITE0),
        "mfeat-pix": Corpus(table("uci/mfeat-pix.csv.gz"), "standard", (30, 30), (60, 60)),
        "CricketX": Corpus(
            table("ucr/CricketX.csv.gz"), "standard+pca256", (32, 32), (45, 20), options=SERIES
        ),
        "Adiac": Corpus(table("ucr/Adiac.csv.gz"), "standard", (6, 10), (12, 8), options=SERIES),
        "landuse21": Corpus(table("uci/landuse21.csv.gz"), "standard", (8, 20), (15, 30)),
        "plant-leaves": Corpus(
            table("uci/plant-leaves.csv.gz"), "standard", (8, 8), (10, 6), 40, {"label": "species"}
        ),
        "mnist": Corpus("mnist", "minmax+pca128", (40, 40), (80, 80)),
        "scene15": Corpus(table("uci/scene15.csv.gz"), "standard", (20, 20), (30, 30)),
        "optdigits": Corpus("keel", "standard", (40, 40), (80, 80), options=keel("optdigits")),
        "letter": Corpus("keel", "standard", (15, 15), (30, 30), options=keel("letter")),
        "texture": Corpus("keel", "standard", (30, 30), (60, 60), options=keel("texture")),
        "vowel": Corpus("keel", "standard", (40, 40), (50, 40), options=keel("vowel")),
        "segment": Corpus("keel", "standard", (40, 40), (80, 80), options=keel("segment")),
        "SwedishLeaf": Corpus(
            table("ucr/SwedishLeaf.csv.gz"), "standard", (30, 30), (40, 35), options=SERIES
        ),
    }


def wide() -> dict[str, Corpus]:
    """Return data whose final fit has one to two degrees of freedom a feature, and folds fewer."""
    same = corpora()
    few = {name: same[name]._replace(unseen=None) for name in ("caltech256, 512", "plant-leaves")}
    return {
        **{name: same[name] for name in ("caltech256, 256", "mfeat-pix", "Adiac", "landuse21")},
        **few,
        "mnist": Corpus("mnist", "minmax+pca128", (16, 40), (28, 60)),
        "libras": Corpus(table("uci/libras.csv.gz"), "standard", (10, 14), (15, 9)),
        "MedicalImages": Corpus(
            table("ucr/MedicalImages.csv.gz"), "standard", (15, 8), None, options=SERIES
        ),
        "optdigits": Corpus("keel", "standard", (8, 40), (15, 60), options=keel("optdigits")),
        "texture": Corpus("keel", "standard", (6, 40), (8, 60), options=keel("texture")),
        "sonar": Corpus("keel", "standard", (36, 40), None, options=keel("sonar")),
        "spambase": Corpus("keel", "standard", (34, 200), None, options=keel("spambase")),
        "ionosphere": Corpus("keel", "standard", (21, 80), None, options=keel("ionosphere")),
        "wdbc": Corpus("keel", "standard", (18, 100), None, options=keel("wdbc")),
    }


def keel(name: str) -> dict[str, Any]:
    """Return the options of a table of KEEL."""
    return {"table": name, "folds": False}


def axes_before(degrees: int, rank: int) -> int:
    """Choose the number of axes as before: all, where there are more degrees of freedom.

    (In the code before, as many were enough for RCA, LFDA and MMC, but not for Covariance.)
    """
    return rank if degrees > rank else max(1, degrees // 2)


def axes_by_share(degrees: int, rank: int) -> int:
    """Choose half of the degrees of freedom, at most the rank."""
    return min(rank, max(1, degrees // 2))


AXES = {"all": axes_before, "share": axes_by_share}


class Setting(NamedTuple):
    """A measurement: three or six folds, and what `n_axes=None` means."""

    n_folds: int
    axes: str


def settings(learner: str, partition: int) -> Iterator[Setting]:
    """Yield the settings that a cell is measured with."""
    yield Setting(N_FOLDS, "all")
    if learner in ON_AXES:
        yield Setting(N_FOLDS, "share")
    if partition == 0:
        yield Setting(MORE_FOLDS, "all")


class Comparison(NamedTuple):
    """The data sets, learners, partitions and candidates of a comparison."""

    corpora: Callable[[], dict[str, Corpus]]
    learners: tuple[str, ...]
    partitions: range
    search: str


COMPARISONS = {
    "rules": Comparison(
        corpora, ("RCA", "LFDA", "NCA", "LDA", "ClassifierPosterior", "OASIS"), range(2), "6"
    ),
    "axes": Comparison(wide, ON_AXES, range(2, 4), "12"),  # other partitions than before
    "defaults": Comparison(wide, ON_AXES, range(4, 6), "1"),
}


def measure(file: Path, comparison: Comparison) -> None:
    """Append the cells that the file lacks, one in a line."""
    done = {tuple(one[:6]) for one in _read(file)}
    file.parent.mkdir(parents=True, exist_ok=True)
    for (name, corpus), (split, task) in product(comparison.corpora().items(), TASKS.items()):
        if (sizes := getattr(corpus, split)) is None:
            continue
        n_train, n_test = sizes
        for n_folds in (N_FOLDS, MORE_FOLDS):
            e = Experiment(
                name,
                corpus.dataset,
                {name: LearnerSpec(name) for name in comparison.learners},
                dataset_options=corpus.options,
                classes=(corpus.classes,),
                tasks=(task,),
                partitions=comparison.partitions.stop,
                inner_folds=min(n_folds, n_train // 2),
                train_per_class=n_train,
                test_per_class=n_test,
                scaling=(corpus.scaling,),
                search=comparison.search,
                blend="off",
                max_steps=4000,
            )
            plan = Plan.load(e, (), lambda *_: None)
            for spec in plan.trials:
                for setting in settings(spec.learner, spec.where.partition):
                    key = (name, split, spec.where.partition, spec.learner, *setting)
                    is_asked = spec.where.partition in comparison.partitions
                    if key in done or setting.n_folds != n_folds or not is_asked:
                        continue
                    try:
                        with using(AXES[setting.axes]):
                            found = cell(spec, plan)
                    except Exception as error:  # named, and not compared
                        print(*key, repr(error), file=sys.stderr)
                        continue
                    with file.open("a") as lines:
                        print(json.dumps([*key, *found]), file=lines)


@contextmanager
def using(rule: Callable[[int, int], int]) -> Iterator[None]:
    """Let `n_axes=None` mean what a rule says."""
    with ExitStack() as patches:
        for learner in (RCA, MMC, Covariance):  # LFDA is built on the same class as RCA
            patches.enter_context(patch(f"{learner.__module__}.axes_to_keep", rule))
        yield


def _read(file: Path) -> list[list[Any]]:
    return [*map(json.loads, file.read_text().splitlines())] if file.exists() else []


def cell(spec: TrialSpec, plan: Plan) -> tuple[dict[str, Any], list[list[float]], list[float]]:
    """Tune; return the hyper-parameters, and mAP by weight on each inner fold and on test items."""
    assignment = Assignment.of(spec)
    items = draw_items(spec, plan.rows, assignment.learner())
    rows = plan.rows.items("rows")
    X, queries = rows[items.train_rows], rows[items.test_rows]
    inner = InnerFolds(assignment, wall.Items(X, items.y))
    tuning = Tuning(
        inner, assignment.candidates, assignment.max_steps, lambda _: nullcontext(), lambda _: None
    )
    [won] = tuning.winners()
    on_folds = []
    for number, data in enumerate(inner.data(won.scaling)):
        learner = inner.make(won.params, number)
        data.fit(learner, 0, won.n_steps)
        on_folds.append(by_weight(learner, data.X, data.queries, data.truth.y))
    steps = wall.learn_preparation(assignment.learner(), won.scaling, X, assignment.encoding)
    X, queries = (apply_steps(steps, part) for part in (X, queries))
    learner = make_learner(assignment, won.params, assignment.seeds.fit, won.n_steps)
    FitData.of(X, items.y, None, assignment.seeds.judgements).fit(learner)
    return won.params, on_folds, by_weight(learner, X, queries, items.truth.y)


def by_weight(learner: MetricLearner, X: Any, queries: Any, y: Any) -> list[float]:
    """Return mAP among `queries` of the blend of each weight."""
    found = []
    for weight in Blend.WEIGHTS:
        model = Model([("learner", learner)])
        model.blend_ = Blend.of(learner, X, weight)
        score = partial(similarity_of, model)
        found.append(evaluate_ranking(score, queries, y, seed=0, k_max=1).mean_average_precision)
    return found


Values = npt.NDArray[np.float64]
Rule = Callable[[Values], int]
"""Given mAP (n_folds, n_weights), return the place of the weight."""


def best(values: Values) -> int:
    """Return the weight with the best mean, of equal ones the largest."""
    means = values.mean(axis=0)
    return int(np.flatnonzero(means == means.max())[-1])


def within_an_error(values: Values) -> int:
    """Return the smallest weight that is at most one standard error worse than the best."""
    short = values[:, [best(values)]] - values
    return int(np.flatnonzero(short.mean(axis=0) <= _errors(short))[0])


def beats_the_baseline(values: Values) -> int:
    """Return the best weight if it beats b = 0 by more than one standard error, else b = 0."""
    place = best(values)
    gain = values[:, [place]] - values[:, [0]]
    return place if gain.mean() > _errors(gain)[0] else 0


def _errors(differences: Values) -> Values:
    return np.asarray(differences.std(axis=0, ddof=1) / np.sqrt(len(differences)))


TODAY = Setting(N_FOLDS, "all")
RULES: dict[str, tuple[Rule | int | None, Setting]] = {
    "today": (best, TODAY),
    "folds": (best, Setting(MORE_FOLDS, "all")),
    "share": (best, Setting(N_FOLDS, "share")),
    "error": (within_an_error, TODAY),
    "beat": (beats_the_baseline, TODAY),
    "share + error": (within_an_error, Setting(N_FOLDS, "share")),
    "share + beat": (beats_the_baseline, Setting(N_FOLDS, "share")),
    "b = 1": (-1, TODAY),
    "b = 1, share": (-1, Setting(N_FOLDS, "share")),
    "best on test": (None, TODAY),
}


KEY = ["data", "corpus", "split", "partition", "learner"]


def reductions(file: Path) -> pd.DataFrame:
    """Return the error reduction of each rule in each cell, and those of today's on its splits."""
    measured = {tuple(one[:6]): one[6:] for one in _read(file)}
    lines = []
    for corpus, split, partition, learner in dict.fromkeys(key[:4] for key in measured):
        for name, (rule, setting) in RULES.items():
            key = corpus, split, partition, learner
            n_folds, meant = setting
            if learner not in ON_AXES:
                meant = "all"
            if (*key, n_folds, meant) not in measured:
                continue
            _, on_folds, on_test = measured[*key, n_folds, meant]
            reduction = 100 * (np.array(on_test) - on_test[0]) / (1 - on_test[0])
            place = int(reduction.argmax()) if rule is None else rule
            if callable(place):
                place = place(np.array(on_folds))
            data = corpus.split(",")[0]
            lines.append((data, *key, name, Blend.WEIGHTS[place], reduction[place]))
    return pd.DataFrame(lines, columns=[*KEY, "rule", "weight", "reduction"])


def interval(differences: pd.Series) -> str:
    """Return the mean over data sets and its 95 % interval by a t-test."""
    mean, n = differences.mean(), len(differences)
    half = t_distribution.ppf(0.975, n - 1) * differences.std() / np.sqrt(n)
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


def print_tables(file: Path) -> None:
    """Print the tables of the page."""
    found = reductions(file)
    rules = [rule for rule in RULES if rule in set(found["rule"])]
    by_rule = found.pivot(index=KEY, columns="rule", values="reduction")[rules]
    parts = {"all": by_rule, **{at: by_rule.xs(at, level="split") for at in TASKS}}
    print(f"{len(by_rule)} cells of {found['data'].nunique()} data sets\n")
    print("| rule | mean | harmed | rule − today | seen | unseen | data sets better, worse |")
    print("|---|---|---|---|---|---|---|")
    for rule in rules:
        here = by_rule.dropna(subset=rule)
        differences = {
            at: (part[rule] - part["today"]).dropna().groupby("data").mean()
            for at, part in parts.items()
        }
        n_better, n_worse = (int((sign * differences["all"] > 0.05).sum()) for sign in (1, -1))
        harmed = f"{(here[rule] < HARM).sum()} of {len(here)} ({(here['today'] < HARM).sum()})"
        texts = [f"{here[rule].mean():.1f}", harmed, *map(interval, differences.values())]
        print(f"| {rule} | {' | '.join(texts)} | {n_better}, {n_worse} |")
    print("\nby learner, rule − today:\n")
    print(f"| learner | {' | '.join(rules)} |\n|---|{'---|' * len(rules)}")
    for learner in found["learner"].unique():
        part = by_rule.xs(learner, level="learner")
        texts = [
            interval((part[rule] - part["today"]).dropna().groupby("data").mean()) for rule in rules
        ]
        print(f"| {learner} | {' | '.join(texts)} |")
    for at in TASKS:
        print(f"\n{at} classes, mean error reduction:\n")
        print(f"| data | {' | '.join(rules)} |\n|---|{'---|' * len(rules)}")
        for corpus, row in parts[at].groupby("corpus", sort=False).mean().iterrows():
            print(f"| {corpus} | {' | '.join(f'{value:.1f}' for value in row)} |")


if __name__ == "__main__":
    measure(Path(sys.argv[2]), COMPARISONS[sys.argv[1]])
    print_tables(Path(sys.argv[2]))

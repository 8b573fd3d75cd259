"""Facts of a run that several parts of its report state: learners, subsets, sizes, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from oasis_bench.analysis.statistics import summarise
from oasis_bench.reports.formatting import clip, plural
from oasis_bench.store.run_file import RunRecord

TITLE_WIDTH, LABEL_WIDTH, REASON_WIDTH = 60, 24, 240


def learners(run: RunRecord) -> list[str]:
    """Return the learners' labels in the order of the experiment."""
    return list(run.info.experiment.learners)


def partitions_text(run: RunRecord) -> str:
    """Return the number of outer partitions, with its noun."""
    return plural(run.info.experiment.partitions, "partition")


def subsets(run: RunRecord) -> dict[str, int]:
    """Return the number of classes of each subset, the smallest subset first."""
    sizes = {name: len(classes) for name, classes in run.info.classes.items()}
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def class_noun(run: RunRecord) -> str:
    """Return what the labels of this run are called, in the plural."""
    return "words" if run.info.multi_label else "classes"


def subset_title(run: RunRecord, subset: str) -> str:
    """Name a subset for a heading."""
    size = f"{subsets(run)[subset]} {class_noun(run)}"
    return size if _is_number(run, subset) else f"{clip(subset, TITLE_WIDTH)} ({size})"


def subset_label(run: RunRecord, subset: str) -> str:
    """Name a subset for a table's cell or an axis."""
    size = str(subsets(run)[subset])
    return size if _is_number(run, subset) else f"{clip(subset, LABEL_WIDTH)} ({size})"


def _is_number(run: RunRecord, subset: str) -> bool:
    """Tell whether the name of a subset is its number of classes."""
    return subset == str(subsets(run)[subset])


def finished(run: RunRecord) -> pd.DataFrame:
    """Return the trials that gave a result."""
    return run.trials[run.trials["status"] == "ok"]


def by_subset_and_learner(
    run: RunRecord, rows: pd.DataFrame
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield each subset and learner with its rows, which may be none."""
    for subset in subsets(run):
        for learner in learners(run):
            own = rows[(rows["subset"] == subset) & (rows["learner"] == learner)]
            yield subset, learner, own


def sizes(run: RunRecord, subset: str) -> tuple[int, int] | None:
    """Return the training and test images of a partition; None before the first trial."""
    trials = run.trials[run.trials["subset"] == subset]
    if trials.empty:
        return None
    return int(trials["n_train"].iloc[0]), int(trials["n_test"].iloc[0])


def mean_over_partitions(run: RunRecord, subset: str, column: str) -> float:
    """Average a property of the partitions, each counted once; NaN without a result.

    Examples are 'chance_level' and 'n_queries_left_out', the test images without a relevant other.
    """
    trials = finished(run)
    trials = trials[trials["subset"] == subset].drop_duplicates("partition")
    return summarise(trials[column]).mean


def chance_level(run: RunRecord, subset: str) -> float:
    """Return the mean chance level over the partitions; NaN without a result."""
    return mean_over_partitions(run, subset, "chance_level")


def shortfall(run: RunRecord, subset: str, learner: str) -> tuple[str, ...]:
    """Say why a learner has results on fewer partitions than planned; nothing where it has all."""
    planned = run.info.experiment.partitions
    trials = run.trials
    trials = trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
    lost = trials[trials["status"] != "ok"]
    reasons = Counter(f"{row.status}: {row.reason}" for row in lost.itertuples())
    if len(trials) == planned and not reasons:
        return ()
    if len(lost) == planned and len(reasons) == 1 and (lost["status"] == "not applicable").all():
        return (f"{learner}: {clip(next(iter(reasons)), REASON_WIDTH)}.",)
    parts = [f"{count} {clip(reason, REASON_WIDTH)}" for reason, count in reasons.items()]
    if not_run := planned - len(trials):
        parts.append(f"{not_run} not run")
    n_finished = len(trials) - len(lost)
    return (
        f"{learner}: {n_finished} of {plural(planned, 'partition')} finished; {'; '.join(parts)}.",
    )

"""Whether a data set gives what a learner takes: rows, pixels or patches."""

from __future__ import annotations

import inspect

from oasis_bench.data.rows import LabelledRows
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.system.errors import UsageError

EXAMPLES = {"pixels": "SIZE", "patches": "gb70+gb42"}
"""Values of the options that ask for items."""


def refuse_unlike_inputs(
    learner: type[MetricLearner], dataset: Dataset, rows: LabelledRows
) -> None:
    """Raise UsageError where the items of a data set are not what a learner takes.

    Parameters
    ----------
    learner : type
    dataset : Dataset
    rows : LabelledRows
        What `dataset` loaded.
    """
    kind = learner.takes
    try:
        rows.items(kind)
    except UsageError as error:
        what = f"{learner.name} takes {kind}, and data set {dataset.name}"
        if kind in dataset.gives and kind in inspect.signature(type(dataset)).parameters:
            raise UsageError(
                f"{what} makes them only when asked: give --data-option {kind}={EXAMPLES[kind]}"
            ) from error
        raise UsageError(
            f"{what} gives {' and '.join(dataset.gives)}: choose another learner or data set"
        ) from error

"""Whether a data set gives what a learner takes: rows, pixels, patches, or the last two."""

from __future__ import annotations

import inspect

from oasis_bench.data import LabelledRows
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.system import UsageError

EXAMPLES = {"pixels": ("pixels=SIZE",), "patches": ("patches=gb70+gb42", "features=lab+hog")}
"""Options that ask for items; a data set may have one of them or none."""


def refuse_unlike_inputs(
    learner: type[MetricLearner],
    dataset: Dataset,
    rows: LabelledRows,
    features: str | None = None,
) -> None:
    """Raise UsageError where the items of a data set are not what a learner takes.

    Parameters
    ----------
    learner : type
    dataset : Dataset
    rows : LabelledRows
        What `dataset` loaded.
    features : str, optional
        The kinds of features that the learner takes, of those that rows are made of.
    """
    kind = learner.takes
    if features is not None:
        rows.items(kind, features)
    try:
        rows.items(kind)
    except UsageError as error:
        what = f"{learner.name} takes {kind}, and data set {dataset.name}"
        options = inspect.signature(type(dataset)).parameters
        parts = kind.split("+")
        missing = [part for part in parts if getattr(rows, part, None) is None]
        asks = [
            " or ".join(one for one in EXAMPLES.get(part, ()) if one.partition("=")[0] in options)
            for part in missing
        ]
        if asks and all(asks) and set(parts) <= set(dataset.gives):
            given = " and ".join(f"--data-option {one}" for one in asks)
            raise UsageError(
                f"{what} makes {' and '.join(missing)} only when asked: give {given}"
            ) from error
        raise UsageError(
            f"{what} gives {' and '.join(dataset.gives)}: choose another learner or data set"
        ) from error

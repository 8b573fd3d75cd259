"""What the records of web-scale trainings say: seeds pooled, growth with images, cost of batches.

Not for how it is shown: the tables and the figures of the web-scale report have modules of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from oasis_bench.analysis.statistics import Summary, fit_power_law, summarise
from oasis_bench.web_scale.training import Checkpoint, TrainingRecord

TRAINING = ["images", "steps", "batch_size", "seed"]
"""The columns that tell trainings apart, the seed last."""

SCHEDULE = ["batch_size", "steps_an_image", "threads"]
"""The columns that learning times must share to show growth."""

PRECISION_AT = (1, 10, 50)

LEAST_SIZES = 3
"""Numbers of images that an exponent needs: two points have no residual."""


@dataclass(frozen=True)
class Growth:
    """Least squares of log(seconds) on log(images): seconds = factor * images ** exponent.

    Attributes
    ----------
    schedule : str
    steps_an_image : float
    threads : int
    points : DataFrame of shape (n_sizes, 5)
        images, and the median, min, max and count of the learning seconds over seeds.  The
        medians are fitted.
    factor, exponent : float
    low, high : float
        95 % confidence interval of the exponent (Student's t, two degrees of freedom less than
        there are points).
    """

    schedule: str
    steps_an_image: float
    threads: int
    points: pd.DataFrame
    factor: float
    exponent: float
    low: float
    high: float


@dataclass(frozen=True)
class BatchCost:
    """Final mAP by batch size, for one number of images and of steps.

    Attributes
    ----------
    n_images, n_steps : int
    exact : Summary
        mAP of OASIS over seeds.
    batches : dict of int to Summary
        mAP by batch size, ascending.
    differences : dict of int to Summary
        mAP less that of OASIS with the same seed, by batch size.
    """

    n_images: int
    n_steps: int
    exact: Summary
    batches: dict[int, Summary]
    differences: dict[int, Summary]

    def within(self, batch_size: int) -> bool | None:
        """Say whether the mean difference is at most exact's deviation over seeds, where known."""
        if self.exact.n < 2 or not self.differences[batch_size].n:
            return None
        return abs(self.differences[batch_size].mean) <= self.exact.sd


def schedule_name(batch_size: float) -> str:
    """Name a schedule; NaN is OASIS step by step."""
    return "exact" if math.isnan(batch_size) else f"batch {batch_size:,.0f}"


def checkpoints_of(records: Sequence[TrainingRecord]) -> pd.DataFrame:
    """Tell every checkpoint: a row each, trainings in order of images, steps, batch and seed."""
    rows = [_row(record, point) for record in records for point in record.checkpoints]
    frame = pd.DataFrame(rows).astype({"batch_size": float, "peak_bytes": float, "load": float})
    return frame.sort_values([*TRAINING, "n_steps"], na_position="first", ignore_index=True)


def _row(record: TrainingRecord, point: Checkpoint) -> dict[str, Any]:
    training = record.training
    return {
        "images": training.n_images,
        "steps": training.n_steps,
        "batch_size": training.batch_size,
        "seed": training.seed,
        "threads": record.n_threads,
        **{name: value for name, value in asdict(point).items() if name != "precision_at"},
        **{f"precision_at_{k}": point.precision_at.get(str(k)) for k in PRECISION_AT},
    }


def ends_of(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Tell how each training ended, or how far it is: the last checkpoint of each.

    `mean_average_precision_at_start` is that of W = I, which the first checkpoint has;
    `peak_bytes` is the most of all checkpoints; `complete` says whether all steps are done.
    """
    trainings = checkpoints.groupby(TRAINING, dropna=False, sort=False)
    first, ends = (rows.reset_index(drop=True) for rows in (trainings.head(1), trainings.tail(1)))
    return ends.assign(
        mean_average_precision_at_start=first["mean_average_precision"],
        peak_bytes=trainings["peak_bytes"].max().to_numpy(),
        microseconds_a_step=1e6
        * ends["learn_seconds"]
        / ends["n_steps"].where(ends["n_steps"] > 0),
        complete=ends["n_steps"] == ends["steps"],
    )


def pooled(ends: pd.DataFrame, *also: str) -> Iterator[pd.DataFrame]:
    """Yield the complete trainings that differ in their seed alone, and each unfinished one.

    Columns in `also` set trainings apart too.
    """
    alone = ends["seed"].where(~ends["complete"])
    keys = [ends[name] for name in (*TRAINING[:-1], *also)]
    for _, own in ends.groupby([*keys, alone], dropna=False, sort=False):
        yield own


def curves(checkpoints: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tell mAP along the steps for the largest number of images, by schedule.

    Returns
    -------
    dict of str to DataFrame of shape (n_checkpoints, 6)
        images; x, the steps, without the start; mean and sd of mAP over seeds; se, the standard
        error over queries; seeds, their number.  Without a complete seed it goes as far as every
        seed has come.
    """
    learned = checkpoints[checkpoints["n_steps"] > 0]
    for largest in ("images", "steps"):
        learned = learned[learned[largest] == learned[largest].max()]
    return {
        schedule_name(own["batch_size"].iloc[0]): _curve(own)
        for _, own in learned.groupby("batch_size", dropna=False, sort=False)
    }


def _curve(own: pd.DataFrame) -> pd.DataFrame:
    ends = own.groupby("seed")["n_steps"].max()
    complete = ends.index[ends == own["steps"].iloc[0]]
    kept = own["seed"].isin(complete) if len(complete) else own["n_steps"] <= ends.min()
    points = own[kept].groupby("n_steps")
    return points.agg(
        images=("images", "first"),
        mean=("mean_average_precision", "mean"),
        sd=("mean_average_precision", "std"),
        se=("standard_error", "mean"),
        seeds=("seed", "count"),
    ).reset_index(names="x")


def growths(ends: pd.DataFrame) -> list[Growth]:
    """Fit learning time to images, for each schedule with enough numbers of images.

    Trainings are of one schedule where batch size, steps an image and threads are the same.
    """
    complete = ends[ends["complete"]].assign(steps_an_image=ends["steps"] / ends["images"])
    found = []
    for _, own in complete.groupby(SCHEDULE, dropna=False, sort=False):
        points = own.groupby("images")["learn_seconds"].agg(["median", "min", "max", "count"])
        if len(points) < LEAST_SIZES:
            continue
        points = points.reset_index()
        law = fit_power_law(points["images"], points["median"])
        batch_size, steps_an_image, threads = (own[name].iloc[0] for name in SCHEDULE)
        found.append(
            Growth(
                schedule=schedule_name(batch_size),
                steps_an_image=steps_an_image,
                threads=threads,
                points=points,
                factor=law.factor,
                exponent=law.exponent,
                low=law.low,
                high=law.high,
            )
        )
    return found


def batch_costs(ends: pd.DataFrame) -> list[BatchCost]:
    """Compare the batch sizes with exact, wherever both are complete."""
    complete = ends[ends["complete"]].set_index("seed")
    costs = []
    for _, own in complete.groupby(["images", "steps"], sort=False):
        scores = own["mean_average_precision"]
        exact, sizes = scores[own["batch_size"].isna()], own["batch_size"].dropna().unique()
        if exact.empty or not len(sizes):
            continue
        by_size = {int(size): scores[own["batch_size"] == size] for size in sizes}
        costs.append(
            BatchCost(
                n_images=own["images"].iloc[0],
                n_steps=own["steps"].iloc[0],
                exact=summarise(exact),
                batches={size: summarise(values) for size, values in by_size.items()},
                differences={
                    size: summarise((values - exact).dropna()) for size, values in by_size.items()
                },
            )
        )
    return costs

"""What the records of web-scale trainings show: seeds pooled, growth with images, cost of batches.

Tables and figures are made from these frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple

import pandas as pd

from oasis_bench.analysis import LEAST_POINTS, fit_power_law
from oasis_bench.web_scale import PRECISION_AT, TrainingRecord

TRAINING = ["images", "steps", "batch_size", "seed"]
"""The columns that identify a training, as `Training` has them; batch_size is NaN for exact."""

SCHEDULE = ["schedule", "steps_an_image", "threads"]
"""Learning times are compared where these columns are the same."""

AT_K = [f"precision_at_{k}" for k in PRECISION_AT]


def schedule_name(batch_size: float) -> str:
    """Name a schedule; NaN is exact OASIS."""
    return "exact" if math.isnan(batch_size) else f"batch {batch_size:,.0f}"


def checkpoints_of(records: Sequence[TrainingRecord]) -> pd.DataFrame:
    """Return a row for each checkpoint, in the order of images, steps, batch size and seed."""
    rows = [
        {
            **dict(zip(TRAINING, astuple(record.training), strict=True)),
            "threads": record.n_threads,
            **asdict(point),
            **{f"precision_at_{k}": point.precision_at.get(str(k)) for k in PRECISION_AT},
        }
        for record in records
        for point in record.checkpoints
    ]
    frame = pd.DataFrame(rows).drop(columns="precision_at")
    frame = frame.astype({"batch_size": float, "peak_bytes": float, "load": float})
    frame = frame.sort_values([*TRAINING, "n_steps"], na_position="first", ignore_index=True)
    return frame.assign(
        schedule=frame["batch_size"].map(schedule_name),
        steps_an_image=frame["steps"] / frame["images"],
    )


def ends_of(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return the last checkpoint of each training.

    `mean_average_precision_at_start` is that of W = I, measured at the first checkpoint;
    `peak_bytes` is the largest of all checkpoints; `complete` says whether all steps are done.
    """
    trainings = checkpoints.groupby(TRAINING, dropna=False, sort=False)
    first, ends = (rows.reset_index(drop=True) for rows in (trainings.head(1), trainings.tail(1)))
    seconds_per_step = ends["learn_seconds"] / ends["n_steps"].where(ends["n_steps"] > 0)
    return ends.assign(
        mean_average_precision_at_start=first["mean_average_precision"],
        peak_bytes=trainings["peak_bytes"].max().to_numpy(),
        microseconds_a_step=1e6 * seconds_per_step,
        complete=ends["n_steps"] == ends["steps"],
    )


def pooled(ends: pd.DataFrame, *also: str) -> list[pd.DataFrame]:
    """Return complete trainings that differ in their seed alone together, unfinished ones alone.

    Trainings that differ in a column of `also` are not pooled either.
    """
    unfinished_seed = ends["seed"].where(~ends["complete"])
    keys = [ends[name] for name in (*TRAINING[:-1], *also)]
    groups = ends.groupby([*keys, unfinished_seed], dropna=False, sort=False)
    return [own for _, own in groups]


def curves(checkpoints: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return mAP along the steps for the largest number of images, by schedule.

    The columns are images; x, the steps, without the start; mean and sd of mAP over seeds; se, the
    standard error over queries; seeds, their number.  The seeds are the complete ones; where none
    is complete, the curve ends where the shortest training ends.
    """
    learned = largest(checkpoints[checkpoints["n_steps"] > 0], "images", "steps")
    return {str(schedule): _curve(own) for schedule, own in learned.groupby("schedule", sort=False)}


def largest(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the rows that are largest in the first column, of these those in the next, ..."""
    for name in names:
        frame = frame[frame[name] == frame[name].max()]
    return frame


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


def learning_times(ends: pd.DataFrame) -> pd.DataFrame:
    """Return learning times over seeds by schedule and images, for schedules of enough sizes.

    The columns are those of `SCHEDULE`, images, and of the seconds: middle (median), low, high,
    count.
    """
    complete = ends[ends["complete"]]
    seconds = complete.groupby([*SCHEDULE, "images"], sort=False)["learn_seconds"]
    points = seconds.agg(middle="median", low="min", high="max", count="count").reset_index()
    n_sizes = points.groupby(SCHEDULE)["images"].transform("count")
    return points[n_sizes >= LEAST_POINTS]


def growths(times: pd.DataFrame) -> pd.DataFrame:
    """Fit seconds = factor * images ** exponent to the medians of `learning_times`.

    A row for each schedule: the columns of `SCHEDULE`, n_sizes, factor, exponent, and low and high,
    the exponent's 95 % confidence interval (Student's t, two degrees of freedom less than sizes).
    """
    rows = [
        {
            **dict(zip(SCHEDULE, schedule, strict=True)),
            **asdict(fit_power_law(own["images"], own["middle"])),
        }
        for schedule, own in times.groupby(SCHEDULE, sort=False)
    ]
    return pd.DataFrame(rows).rename(columns={"n": "n_sizes"})


def batch_costs(ends: pd.DataFrame) -> pd.DataFrame:
    """Compare the final mAP of each batch size with that of exact OASIS, where both are complete.

    A row for each number of images, steps and batch size: mean and sd over seeds; n_pairs,
    mean_difference and sd_of_differences (batch size less exact with the same seed); mean_of_exact,
    sd_of_exact and n_exact; within: whether the mean difference is at most sd_of_exact, None where
    that is not known or 0.
    """
    found = [pd.DataFrame()]
    complete = ends[ends["complete"]].assign(batch_size=ends["batch_size"].fillna(0))
    for (images, steps), own in complete.groupby(["images", "steps"], sort=False):
        scores = own.pivot(index="seed", columns="batch_size", values="mean_average_precision")
        if 0 not in scores:
            continue
        exact, scores = scores[0], scores.drop(columns=[0])
        less = scores.sub(exact, axis="index")
        costs = {
            "images": images,
            "steps": steps,
            "batch_size": scores.columns.astype(int),
            "n_pairs": less.count(),
            "mean_difference": less.mean(),
            "sd_of_differences": less.std(),
            "sd_of_exact": exact.std(),
            "n_exact": exact.count(),
            "mean_of_exact": exact.mean(),
            "mean": scores.mean(),
            "sd": scores.std(),
        }
        known = (less.count() > 0) & (exact.std() > 0)
        within = less.mean().abs() <= exact.std()
        found.append(pd.DataFrame(costs).assign(within=within.astype(object).where(known, None)))
    return pd.concat(found, ignore_index=True)

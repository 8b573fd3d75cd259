"""Fitted learners in files: `save_model` and `load_model`, which runs no code from the file.

A file is a zip of a JSON header and NPY arrays; there is no pickle.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from oasis_bench import __version__
from oasis_bench.data import (
    FloatArray,
    Patches,
    PatchKind,
    Prepare,
    ReadTable,
    Scaling,
    Schema,
    row_hashes,
)
from oasis_bench.plugins.blending import Blend
from oasis_bench.plugins.metric_learner import FittedArray, IndexVectors, MetricLearner
from oasis_bench.plugins.posterior import Posterior
from oasis_bench.plugins.registry import Registry
from oasis_bench.plugins.use import calibrated, ranking_of
from oasis_bench.system import ArrayArchive, UsageError, open_regular, printable, quoted, whole_file
from oasis_bench.tasks import Calibration

PathLike: TypeAlias = "str | os.PathLike[str]"
Steps: TypeAlias = "Sequence[Any] | None"
Hashes: TypeAlias = "npt.NDArray[np.uint64] | None"
Records: TypeAlias = "dict[str, Any]"

MESSAGE_LENGTH = 500
"""Characters of a reason that an error gives: a damaged file can hold megabytes of text."""

FORMAT = "oasis-bench model"

FORMAT_VERSION = 2

HEADER = "header.json"

TRAINING_ROWS = "training-rows"
"""The array of hashes, besides the learner's arrays; no attribute can have this name."""

BLEND = "euclidean-blend"
"""The array of a `Blend`: weight, baseline_sd and learned_sd; also a reserved name."""
SCHEMA, SAME, ABOUT = "schema.json", "same.json", "about.json"
RECORDS: Mapping[str, Any] = {SCHEMA: Schema, SAME: Calibration, ABOUT: dict[str, str]}
"""Entries that a file may have: the schema of the model's table, the probability of one class, and
what `fit` says of the data and of the quality to expect."""

STEPS_PLACE, BASELINE_PLACE = "scaling-steps", "baseline-steps"
"""Prefixes of the names of transformers that prepare rows, and of their arrays: for the learner,
and for its baseline if it takes other rows."""

CONTENTS = "contents.json"
"""The entry with the checksum (CRC-32) of each other entry.  If an entry is missing or changed, the
model may rank differently.  A file of a learner alone has no checksums, and `fit` adds `ABOUT`
without one."""


_COUNT, _OF_EACH = FittedArray((), np.number), FittedArray(("n_features",))
_SCALE = FittedArray(("n_features",), positive=True)
_WITHOUT_SCALE = dict.fromkeys(("var_", "scale_"), FittedArray((), np.object_))  # they are None

OF_STEPS: Mapping[str, Mapping[str, FittedArray]] = {
    "Prepare": {
        "medians_": _OF_EACH,
        **dict.fromkeys(("indicated_", "joined_"), FittedArray(("n_features",), np.bool_)),
    },
    "PrincipalComponents": {
        "mean_": _OF_EACH,
        "components_": FittedArray(("n_components", "n_features")),
    },
    "InverseDocumentFrequency": {
        "features_": FittedArray(("n_kept",), np.integer, chosen_from="n_features"),
        "idf_": FittedArray(("n_kept",), positive=True),
    },
    "StandardScaler": {"n_samples_seen_": _COUNT, "mean_": _OF_EACH},
    "MinMaxScaler": {
        "n_samples_seen_": _COUNT,
        **dict.fromkeys(("min_", "data_min_", "data_max_", "data_range_"), _OF_EACH),
        "scale_": _SCALE,
    },
}
"""The fitted attributes of `Scaling.STEPS`, by their names."""


class Model(IndexVectors, Pipeline):  # type: ignore[misc]
    """A pipeline of a scaling and a fitted learner, with its blend and its vectors for an index.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As in scikit-learn's Pipeline: ``Model(pipeline.steps)`` makes one of your own.

    Attributes
    ----------
    blend_ : Blend
        The blend with the Euclidean baseline, if there is one.
    same_ : Calibration
        What `same_probability` needs, if `fit_same` was called.
    about_ : dict of str to str
        What `oasis_bench.fit` says of the data and of the quality to expect, if it made the model.
    """

    def fit_same(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Calibrate `same_probability` on the rows that the model was fitted on.

        As in scikit-learn's ``CalibratedClassifierCV(ensemble=False)``, the rows are divided into
        five folds, and a copy of the model that is fitted on four of them scores the pairs of the
        fifth.  So it has seen no item of a pair; but hyper-parameters were tuned on all rows.  The
        score of a pair is the mean of both directions; isotonic regression gives its probability.

        Parameters
        ----------
        X : array, CSR, DataFrame or Patches
            The training rows, before scaling.
        y : array of shape (n_rows,)
        groups : array of shape (n_rows,), optional
            Rows of one group are in one fold; their pairs count, too.  Give `y` if you will compare
            items of other classes, or if classes have few rows.  Default: folds at random.

        Returns
        -------
        Model
            The model itself.  `save_model` keeps the calibration.

        Raises
        ------
        UsageError
            If a fold has no pairs of one class or none of two, or if a fit on the others fails.
        """
        self.same_ = calibrated(self, X, y, groups)
        return self

    def same_probability(self, a: Any, b: Any, prior: float | None = None) -> FloatArray:
        """Return the probability that two items are of one class; the model was fitted on neither.

        Parameters
        ----------
        a, b : array, CSR, DataFrame or Patches
            n_a and n_b items for the first step of the model.
        prior : float, optional
            The share of pairs of one class among the pairs that you compare, above 0 and below 1.
            It is larger if you compare likely pairs only, such as nearest neighbours.  Default: the
            share among all pairs of the training rows.

        Returns
        -------
        ndarray of shape (n_a, n_b)
            As `similarity`.  Its diagonal has the pairs of two arrays, row by row.

        Raises
        ------
        UsageError
            If `fit_same` was not called, or `prior` is out of bounds.
        """
        if not hasattr(self, "same_"):
            raise UsageError("not calibrated yet: call fit_same(X, y) with the training rows")
        (there, of_b), (back, of_a) = (ranking_of(self, pair) for pair in ([b, a], [a, b]))
        return self.same_((there(*of_b[::-1]) + back(*of_a[::-1]).T) / 2, prior)


def save_model(
    learner: MetricLearner | Pipeline,
    path: PathLike,
    training_rows: Any = None,
    blend: Blend | None = None,
) -> None:
    """Write a fitted learner, or a pipeline of a scaling and a learner, to a file.

    `load_model` reads the file.  It is an uncompressed .npz file: you can read an array with
    ``numpy.load(path)["bilinear_matrix_"]``, and see the rest with ``unzip -p PATH header.json``.
    If an error occurs, no incomplete file is left.

    Parameters
    ----------
    learner : MetricLearner or Pipeline
        Parameters and fitted attributes are saved, also private ones and the state of a
        `RandomState`, so that `partial_fit` can continue.  In a Pipeline, the steps before the
        learner must be a scaling of ``run --scaling``, as in the result of `oasis_bench.fit`.
    path : str or path-like
        The file, which is replaced if it exists.  Its folder must exist.
    training_rows : array, CSR or DataFrame of shape (n_rows, n_features), optional
        The training rows before scaling, as in the user's file.  Their hashes are saved, so that
        `evaluate` can find out which rows of a table the model has seen.
    blend : Blend, optional
        The blend with the Euclidean baseline, which `evaluate` uses and `load_blend` reads.
        Default: the attribute `blend_` of a Pipeline, if it has one.

    Raises
    ------
    NotFittedError
        If the learner is not fitted.
    UsageError
        If the learner has a value that is not finite or that the file cannot contain (such as an
        estimator of scikit-learn), if another class has its name, if another step is in the
        pipeline, or if the file cannot be written.
    """
    steps, rows, records = None, training_rows, dict[str, Any]()
    if isinstance(learner, Pipeline):
        steps = [step for _, step in learner.steps[:-1] if step not in (None, "passthrough")]
        if steps and isinstance(steps[0], ReadTable):
            read = steps.pop(0)
            records[SCHEMA] = read.schema
            rows = None if rows is None else read.transform(rows)
        if Scaling.of(steps) is None:
            raise UsageError(
                f"{steps} is none of the scalings ({', '.join(Scaling.WORDS)}), and a file has "
                "no code: save the last step alone (pipeline[-1]), or the whole with "
                "`skops.io.dump`"
            )
        blend = blend or getattr(learner, "blend_", None)
        records |= {SAME: getattr(learner, "same_", None), ABOUT: getattr(learner, "about_", None)}
        learner = learner[-1]
    elif blend is not None:
        raise UsageError(
            "a blend is of scaled rows: save it with a Pipeline of their scaling and the learner, "
            "or make_pipeline(learner) for rows as they are"
        )
    for prepared in (steps, blend.steps if blend else None):
        _check_steps(prepared or ())
    hashes = None
    if rows is not None:
        hashes = row_hashes(rows if sparse.issparse(rows) else np.asarray(rows))
    try:
        with whole_file(Path(path)) as file, ArrayArchive(file, "w") as archive:
            _write_learner(archive, learner)
            _write_known(archive, steps, hashes, blend, records)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}: give a file in another folder"
        ) from error


def write_model(learner: MetricLearner, file: BinaryIO) -> None:
    """Write a fitted learner into an open file, as `save_model` does."""
    with ArrayArchive(file, "w") as archive:
        _write_learner(archive, learner)


def _write_learner(archive: ArrayArchive, learner: MetricLearner) -> None:
    """Write the header and the arrays of a fitted learner.  Equal models make equal files."""
    if not isinstance(learner, MetricLearner):
        raise UsageError(
            f"a {type(learner).__name__} is no learner of oasis-bench: give a learner, or a "
            "Pipeline that ends in one, or keep the whole with `skops.io.dump`"
        )
    check_is_fitted(learner)
    arrays: Arrays = {}
    try:
        described = _encode_learner(learner, "", arrays)
    except ValueError as error:
        raise UsageError(f"this {learner.name} cannot be saved: {_one_line(error)}") from error
    versions = {"oasis-bench": __version__, "numpy": np.__version__}
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": versions}
    _write(archive, HEADER, head | described, arrays)


def _encode_learner(learner: MetricLearner, place: str, arrays: Arrays) -> dict[str, Any]:
    """Describe a learner, fitted or not, for the header; its arrays are below `place`."""
    _check_name(type(learner))
    _check_learner(learner)
    params, fitted = learner.get_params(deep=False), _fitted(learner)
    return {
        "algorithm": learner.name,
        "params": {n: encode(v, f"{place}params/{n}", arrays) for n, v in params.items()},
        "fitted": {n: encode(v, f"{place}{n}", arrays) for n, v in fitted.items()},
    }


def _decode_learner(
    described: dict[str, Any], place: str, arrays: Arrays, registry: Registry
) -> MetricLearner:
    """Return the learner that `_encode_learner` described, checked."""
    params, fitted = (
        {n: decode(item, f"{place}{part}{n}", arrays, registry) for n, item in items.items()}
        for part, items in (("params/", described["params"]), ("", described["fitted"]))
    )
    learner = _unfitted(described["algorithm"], params, registry)
    learner.__dict__.update(fitted)
    _check_learner(learner)
    return learner


def load_model(path: PathLike, plugin_files: Sequence[PathLike] = ()) -> Any:
    """Read a model file that `save_model`, `fit` or ``run --save-models`` wrote.

    The learner returns exactly the same scores as the saved one, and `partial_fit` continues from
    its state.  Loading a file executes no code from it, and checks all values.

    Parameters
    ----------
    path : str or path-like
        The model file.
    plugin_files : sequence of str or path-like, default ()
        Files that define learners.  They are executed, so give only files that you trust.

    Returns
    -------
    MetricLearner or Pipeline
        The fitted learner.  If the file also has the scaling, a Pipeline of both (`Model`), which
        accepts rows before scaling.  If the file has a blend with the Euclidean baseline, it is the
        attribute `blend_` of the Pipeline, and `oasis_bench.neighbours` and
        `oasis_bench.scorers.similarity_of` use it.

    Raises
    ------
    UsageError
        If the file cannot be read, is damaged, or is from another program or a newer version; if a
        value does not fit the learner; or if no learner has its name.
    """
    with _named(path):
        registry = Registry.load([Path(file) for file in plugin_files])
    return load_model_of(registry, path)


@contextmanager
def _named(path: PathLike) -> Iterator[None]:
    """Raise UsageError for errors in a model file, with its path."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {_one_line(error)}") from error
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file: give a model file to read") from error
    except Exception as error:  # libraries raise nearly anything for damaged content
        raise UsageError(
            f"{path}: cannot be read as a model file ({_one_line(error)}): give an undamaged one"
        ) from error


def load_model_of(registry: Registry, path: PathLike) -> Any:
    """Read a learner of a registry, as `load_model` does."""
    with _named(path), open_regular(Path(path)) as file:
        learner, steps, blend, records = _read(file, registry)
        schema = records[SCHEMA]
        if steps is None and schema is None:
            return learner
        first = [] if schema is None else [ReadTable(schema)]
        model = Model(make_pipeline(*first, *(steps or []), learner).steps)
        known = {"blend_": blend, "same_": records[SAME], "about_": records[ABOUT]}
        model.__dict__.update({name: it for name, it in known.items() if it is not None})
        return model


def read_model(file: BinaryIO, registry: Registry) -> MetricLearner:
    """Read a learner from an open file, without its scaling."""
    return _read(file, registry)[0]


def _read(
    file: BinaryIO, registry: Registry
) -> tuple[MetricLearner, list[Any] | None, Blend | None, Records]:
    """Read a learner and, if the file has them, the steps before it, its blend and `RECORDS`."""
    header, arrays = read_archive(file)
    steps = _steps_in(header, STEPS_PLACE, arrays, registry)
    blend = _blend_in(header, arrays, registry)
    learner = _decode_learner(header, "", arrays, registry)
    check_is_fitted(learner)
    schema = header[SCHEMA]
    of_baseline = blend.steps if blend and blend.steps else ()
    _refuse_gaps(parts := [*([ReadTable(schema)] if schema else ()), *(steps or ()), learner])
    for one in parts[1:]:
        if schema is not None and isinstance(one, Prepare) and one.encoding != schema.coding:
            raise UsageError("its table is read otherwise than its rows are prepared")
    if of_baseline and of_baseline[0].n_features_in_ != parts[0].n_features_in_:
        raise UsageError("its blend takes rows of other features than its learner")
    if unused := [name for name in arrays if name.startswith((STEPS_PLACE, BASELINE_PLACE))]:
        raise UsageError(f"its array {quoted(unused[0])} is of no step")
    _refuse_changed(header[CONTENTS])
    return learner, steps, blend, header


def _refuse_changed(entries: Sequence[str]) -> None:
    """Raise UsageError if entries of a file are missing or changed."""
    if entries:
        name = quoted(entries[0])
        raise UsageError(f"its entry {name} is missing, or is not the one that was written")


def _steps_in(
    header: dict[str, Any], place: str, arrays: Arrays, registry: Registry
) -> list[Any] | None:
    """Return the transformers that `_write_steps` described, if there are any."""
    if f"{place}.json" not in header:
        return None
    steps = []
    for held in decode(header[f"{place}.json"], place, arrays, registry):
        step = Scaling.STEPS[held["name"]](**held["params"])
        for name, value in held["fitted"].items():
            if name.startswith("_") or not name.endswith("_"):
                raise UsageError(f"{quoted(name)} cannot be a fitted attribute of a step")
            setattr(step, name, value)
        steps.append(step)
    _check_steps(steps)
    return steps


def _check_steps(steps: Sequence[Any]) -> None:
    """Check that transformers are a scaling, and each one by `_fitted_state`."""
    for step in steps:
        try:
            _check_arrays(step, _fitted_state(step), {"n_features": _n_features(step)})
            if isinstance(step, Prepare):
                step.refuse_broken()
        except UsageError as error:
            raise UsageError(f"{type(step).__name__}: {error}") from error
    _refuse_gaps(steps)
    if Scaling.of(steps) is None:
        raise UsageError("the steps before its learner are no scaling of this program")


def _fitted_state(step: Any) -> dict[str, FittedArray]:
    """Describe the fitted attributes of one of `Scaling.STEPS`."""
    state = {"feature_names_in_": FittedArray(("n_features",), np.object_, required=False)}
    state |= OF_STEPS.get(type(step).__name__, {})
    if isinstance(step, StandardScaler):
        state |= {"var_": _OF_EACH, "scale_": _SCALE} if step.with_std else _WITHOUT_SCALE
    return state


def _refuse_gaps(steps: Sequence[Any]) -> None:
    """Raise UsageError if a step and the next one differ in the number of features."""
    for one, other in pairwise(steps):
        given = getattr(one, "_n_features_out", one.n_features_in_)
        if given != other.n_features_in_:
            raise UsageError(
                f"{type(one).__name__} gives {given} features, and {type(other).__name__} takes "
                f"{other.n_features_in_}"
            )


def _blend_in(header: dict[str, Any], arrays: Arrays, registry: Registry) -> Blend | None:
    """Return the blend, if there is one, with the steps of its baseline."""
    held: Any = arrays.get(BLEND)
    if held is None and f"{BASELINE_PLACE}.json" not in header:
        return None
    _check_array(BLEND, held, FittedArray((3,), np.float64), {})
    steps = _steps_in(header, BASELINE_PLACE, arrays, registry)
    weight, baseline_sd, learned_sd = held.tolist()
    return Blend(weight, baseline_sd, learned_sd, None if steps is None else tuple(steps))


def training_rows_of(path: Path) -> Hashes:
    """Return the `row_hashes` of the rows that a saved model was fitted on; None if unknown.

    A run writes them; `save_model` writes them if it gets the rows.
    """
    with open_regular(path) as file:
        return read_archive(file)[1].get(TRAINING_ROWS)


def load_blend(path: PathLike) -> Blend | None:
    """Read the blend with the Euclidean baseline from a model file.

    Parameters
    ----------
    path : str or path-like
        A model file, as for `load_model`.

    Returns
    -------
    Blend or None
        None if the file has no blend, so that the learner is used without the baseline.

    Raises
    ------
    UsageError
        If the file cannot be read, or is not a model file.
    """
    with _named(path), open_regular(Path(path)) as file:
        header, arrays = read_archive(file)
        _refuse_changed(header[CONTENTS])
        return _blend_in(header, arrays, Registry.load())


def _one_line(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(textwrap.shorten(reason, MESSAGE_LENGTH))


def _check_name(learner_class: type[MetricLearner]) -> None:
    """Refuse a class that the registry would not find again by its name."""
    name, catalogue = learner_class.name, Registry.load().algorithms
    is_taken = name in catalogue and catalogue[name] is not learner_class
    if is_taken or (name == Posterior.name and learner_class is not Posterior):
        raise UsageError(
            f"the name {name!r} of {learner_class.__qualname__} belongs to another class: give it "
            "another `name`"
        )


def _unfitted(name: str, params: dict[str, Any], registry: Registry) -> MetricLearner:
    """Make an unfitted learner of the class that has the name in the registry."""
    catalogue = registry.algorithms
    if name not in (Posterior.name, *catalogue):
        raise UsageError(
            f"its algorithm {name!r} is not installed: give its plugin file ('--plugin')"
        )
    try:
        return Posterior(**params) if name == Posterior.name else catalogue[name](**params)
    except Exception as error:
        raise UsageError(f"{name} refuses its parameters: {error}") from error


def _fitted(learner: Any) -> dict[str, Any]:
    """Return all attributes of a learner, or of a step before it, besides its parameters."""
    params = learner.get_params(deep=False)
    return {name: value for name, value in vars(learner).items() if name not in params}


def _check_learner(learner: MetricLearner) -> None:
    """Check the parameters, and the fitted attributes by `_fitted_state`."""
    if hasattr(learner, "_parameter_constraints"):
        learner._validate_params()
    if not _fitted(learner):
        return
    for name in _fitted(learner):
        if not name.isidentifier() or hasattr(type(learner), name):
            raise UsageError(f"{name!r} cannot be a fitted attribute: its class uses the name")
    lengths = {"n_features": _n_features(learner)} if learner.takes == "rows" else {}
    _check_arrays(learner, learner._fitted_state(), lengths)


def _n_features(fitted: Any) -> int:
    n_features = getattr(fitted, "n_features_in_", None)
    if not isinstance(n_features, Integral):
        raise UsageError(f"n_features_in_ is {n_features!r}: a whole number is needed")
    return int(n_features)


def _check_arrays(fitted: Any, state: Mapping[str, FittedArray], lengths: dict[str, int]) -> None:
    """Check the attributes of a learner, or of a step before it, by their descriptions."""
    for name, needed in state.items():
        if name in vars(fitted):
            _check_array(name, getattr(fitted, name), needed, lengths)
        elif needed.required and not hasattr(type(fitted), name):
            raise UsageError(f"{name} is missing")


def _check_array(name: str, value: Any, needed: FittedArray, lengths: dict[str, int]) -> None:
    """Check a fitted attribute; add each named length that is not yet in `lengths` to it."""
    if needed.dtype is MetricLearner:
        if not isinstance(value, MetricLearner):
            raise UsageError(f"{name} is of type {type(value).__name__}: a learner is needed")
        check_is_fitted(value)
        return
    is_sparse = needed.may_be_sparse and isinstance(value, sparse.csr_array)
    value = value if is_sparse else np.asarray(value)
    if not np.issubdtype(value.dtype, needed.dtype):
        raise UsageError(f"{name} has type {value.dtype}: {needed.dtype.__name__} is needed")
    needed.check_shape(name, value, lengths)
    held = value.data if is_sparse else value
    if held.dtype.kind == "f" and held.size and not np.isfinite([held.min(), held.max()]).all():
        raise UsageError(f"{name} has values that are not finite")
    if needed.nonzero and not value.any(axis=-1).all():
        raise UsageError(f"{name} is all zeros: no random generator has such a state")
    if needed.positive and not (value > 0).all():
        raise UsageError(f"{name} has values that are not above 0")
    if needed.chosen_from is not None:
        n = lengths[needed.chosen_from]
        if value.size and (value[0] < 0 or value[-1] >= n or (value[1:] <= value[:-1]).any()):
            raise UsageError(f"{name} has numbers that are not from 0 to {n - 1} in their order")


# --- the format of the file


Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


def _write(archive: ArrayArchive, name: str, described: Any, arrays: Arrays) -> None:
    """Write the output of `encode`: a description as JSON, and the arrays."""
    text = json.dumps(described, indent=1, allow_nan=False).encode()
    archive.writestr(zipfile.ZipInfo(name), text)
    for place, array in arrays.items():
        archive.write_array(f"{place}.npy", array)


def _write_steps(archive: ArrayArchive, steps: Sequence[Any], place: str) -> None:
    """Write fitted transformers, of `STEPS`."""
    held = [
        {"name": type(step).__name__, "params": step.get_params(), "fitted": _fitted(step)}
        for step in steps
    ]
    arrays: Arrays = {}
    _write(archive, f"{place}.json", encode(held, place, arrays), arrays)


def complete_model(
    path: Path, steps: Steps, hashes: Hashes, blend: Blend | None, schema: Schema | None
) -> None:
    """Add the facts that the harness knows to a learner's file.

    They are the steps that prepare rows, the `row_hashes` of its training rows, its blend, and the
    schema of its table.
    """
    with ArrayArchive(path, "a") as archive:
        _write_known(archive, steps, hashes, blend, {SCHEMA: schema})


def add_about(path: Path, about: Mapping[str, str]) -> None:
    """Add what is known of a model's data and of its quality to its file."""
    with ArrayArchive(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(ABOUT), msgspec.json.encode(about))


def _write_known(
    archive: ArrayArchive, steps: Steps, hashes: Hashes, blend: Blend | None, records: Records
) -> None:
    records = {name: it for name, it in records.items() if it is not None}
    for name, record in records.items():
        archive.writestr(zipfile.ZipInfo(name), msgspec.json.encode(record))
    if steps is not None:
        _write_steps(archive, steps, STEPS_PLACE)
    if hashes is not None:
        archive.write_array(f"{TRAINING_ROWS}.npy", hashes)
    if blend is not None:
        numbers = [blend.weight, blend.baseline_sd, blend.learned_sd]
        archive.write_array(f"{BLEND}.npy", np.array(numbers))
        if blend.steps is not None:
            _write_steps(archive, blend.steps, BASELINE_PLACE)
    if records or any(known is not None for known in (steps, hashes, blend)):
        _write(archive, CONTENTS, {it.filename: it.CRC for it in archive.infolist()}, {})


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays; check sizes before memory is allocated.

    The arrays are those of the header, `TRAINING_ROWS`, `BLEND`, and those of the transformers, if
    the file has them; the header describes the transformers.  `CONTENTS` in the header are the
    names of missing or changed entries.
    """
    with ArrayArchive(file) as archive:
        names = archive.namelist()
        if HEADER not in names:
            raise UsageError(f"has no {HEADER}: it was not written by `save_model`")
        header = json.loads(archive.read(HEADER))
        if header["format"] != FORMAT:
            raise UsageError(f"is of the format {header['format']!r}, not {FORMAT!r}")
        if header["format_version"] != FORMAT_VERSION:
            raise UsageError(
                f"has format version {header['format_version']!r}, written by oasis-bench "
                f"{header['versions']['oasis-bench']}: install one that reads it"
            )
        texts = {f"{STEPS_PLACE}.json", f"{BASELINE_PLACE}.json", CONTENTS}.intersection(names)
        header |= {name: json.loads(archive.read(name)) for name in texts}
        for name, kind in RECORDS.items():
            text = archive.read(name) if name in names else b"null"
            header[name] = msgspec.json.decode(text, type=kind | None)
        found = {entry.filename: entry.CRC for entry in archive.infolist()}
        held = header.get(CONTENTS, {})
        header[CONTENTS] = [name for name in held if found.get(name) != held[name]]
        arrays = {
            name.removesuffix(".npy"): archive.read_array(name)
            for name in names
            if name not in (HEADER, *RECORDS, *texts)
        }
    if (hashes := arrays.get(TRAINING_ROWS)) is not None:
        _check_array(TRAINING_ROWS, hashes, FittedArray(("n_rows",), np.uint64), {})
    return header, arrays


def encode(value: Any, place: str, arrays: Arrays) -> Any:
    """Describe a value for the header; put its arrays into `arrays`, each under its `place`.

    Values are numbers, strings, dense arrays of them, CSR, Patches, RandomState, learners, and
    lists, tuples and dicts (identifiers as keys) of such values.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) in (list, tuple):
        items = [encode(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict and all(isinstance(key, str) and key.isidentifier() for key in value):
        return {"dict": {key: encode(v, f"{place}.{key}", arrays) for key, v in value.items()}}
    if type(value) is Patches:
        parts = {
            name: [kind.descriptors, kind.offsets, kind.positions]
            for name, kind in value.kinds.items()
        }
        if value.pixels is not None:
            raise UsageError(f"{place} is Patches with pixels: keep its kinds or its pixels alone")
        return {"Patches": encode(parts, place, arrays)}
    if type(value) is sparse.csr_array:
        csr = [value.data, value.indices, value.indptr, list(value.shape)]
        return {"csr_array": encode(csr, place, arrays)}
    if isinstance(value, MetricLearner):
        return {"learner": _encode_learner(value, f"{place}.", arrays)}
    if type(value) is np.random.RandomState:
        return {"RandomState": _generator_state(value, place)}
    if type(value) is np.ndarray and value.dtype == object and _are_strings(value.tolist()):
        return {"strings": value.tolist()}
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        array = np.asarray(value)
        if array.dtype.kind in ArrayArchive.KINDS and array.dtype.isnative:
            arrays[place] = array
            return {"array" if type(value) is np.ndarray else "scalar": _form(array)}
    if isinstance(value, BaseEstimator):
        raise UsageError(
            f"{place} is a {type(value).__name__} of scikit-learn, and a file has no code: keep "
            "the whole with `skops.io.dump`, whose `load` asks which types you trust"
        )
    raise UsageError(
        f"{place} is of type {type(value).__name__}: a file has numbers, strings, dense arrays "
        "of them, csr_array, Patches, lists, tuples, dicts with names and RandomState"
    )


def decode(item: Any, place: str, arrays: Arrays, registry: Registry) -> Any:
    """Return the value that `encode` described as `item`, and take its arrays out of `arrays`."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    ((kind, content),) = item.items()
    match kind:
        case "float":
            return float(content)
        case "list":
            parts = enumerate(content)
            return [decode(part, f"{place}.{i}", arrays, registry) for i, part in parts]
        case "tuple":
            return tuple(decode({"list": content}, place, arrays, registry))
        case "dict":
            items = content.items()
            return {key: decode(v, f"{place}.{key}", arrays, registry) for key, v in items}
        case "learner":
            return _decode_learner(content, f"{place}.", arrays, registry)
        case "Patches":
            kinds = decode(content, place, arrays, registry)
            return Patches({name: PatchKind(*kinds[name]) for name in kinds})
        case "csr_array":
            *csr, shape = decode(content, place, arrays, registry)
            matrix = sparse.csr_array(tuple(csr), shape=tuple(shape))
            matrix.check_format(full_check=True)  # its users trust its indices
            return matrix
        case "RandomState":
            return _generator(content)
        case "strings" if _are_strings(content):
            return np.array(content, dtype=object)
        case "array" | "scalar" if place not in arrays:
            raise UsageError(f"the array {place} is missing")
        case "array" | "scalar" if content == _form(arrays[place]):
            array = arrays.pop(place)
            return array if kind == "array" else array[()]
    raise UsageError(f"{place} is not what the header says")


def _are_strings(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is str for value in values)


def _form(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _generator_state(generator: np.random.RandomState, place: str) -> dict[str, Any]:
    state: dict[str, Any] = generator.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise UsageError(f"{place} uses {state['bit_generator']}: a file can only have MT19937")
    words, position = state["state"]["key"].tolist(), state["state"]["pos"]
    return {**state, "state": {"key": words, "pos": position}}


def _generator(state: dict[str, Any]) -> np.random.RandomState:
    words, position = np.array(state["state"]["key"], dtype=np.uint32), state["state"]["pos"]
    # numpy checks neither: from a wrong position it draws outside its memory.
    if words.shape != (624,) or position not in range(625):
        raise UsageError(f"a RandomState has {words.size} words and is at position {position}")
    generator = np.random.RandomState()
    generator.set_state({**state, "state": {"key": words, "pos": position}})
    return generator

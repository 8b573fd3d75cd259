"""What fitted attributes of learners and of steps before them look like, for model files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oasis_bench.system import UsageError


class FittedArray(NamedTuple):
    """What a fitted attribute must look like; `load_model` refuses a file in which it does not.

    Attributes
    ----------
    shape : tuple of int or str
        Its shape; () for a single number.  A string is the name of a length, which must be the same
        in all attributes of the learner that use it; 'n_features' is `n_features_in_`.
    dtype : type, default numpy.floating
        A numpy type, or a family of types.  Floating-point values must be finite.  For a fitted
        learner: `MetricLearner`, with the shape ().
    required : bool, default True
        Whether every fitted learner has the attribute.
    nonzero : bool, default False
        Whether each vector along the last axis must have a value other than 0, as the state of a
        random generator must.
    may_be_sparse : bool, default False
        Whether it may also be a csr_array.
    positive : bool, default False
        Whether all its values must be above 0.
    chosen_from : str, optional
        The name of the length that its numbers count from 0 up to, each at most once and in order:
        those of features, for example.
    """

    shape: tuple[int | str, ...]
    dtype: type = np.floating
    required: bool = True
    nonzero: bool = False
    may_be_sparse: bool = False
    positive: bool = False
    chosen_from: str | None = None

    def check_shape(self, name: str, value: Any, lengths: dict[str, int]) -> None:
        """Raise UsageError if the value of an attribute has another shape.

        Each named length that is not yet in `lengths` is added to it.
        """
        found = np.shape(value)
        if len(found) == len(self.shape):
            for length, n in zip(self.shape, found, strict=True):
                if isinstance(length, str):
                    lengths.setdefault(length, n)
        needed = tuple(lengths.get(n, n) if isinstance(n, str) else n for n in self.shape)
        if found != needed:
            raise UsageError(f"{name} has shape {found}: ({', '.join(map(str, needed))}) is needed")

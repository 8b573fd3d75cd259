"""Learners that go wrong in the ways a run must survive, and two whose memory is known."""

import ctypes
import os
import sys

import numpy as np

from oasis_bench.algorithms import Euclidean

HELD_BYTES = 202_000_000  # the kernel counts resident pages to within half a megabyte


class Raises(Euclidean):
    name = "Raises"

    def fit(self, X, y=None):
        raise ArithmeticError("no optimum\nwas found")


class NaNSimilarity(Euclidean):
    name = "NaNSimilarity"

    def similarity(self, queries, gallery):
        scores = super().similarity(queries, gallery)
        scores[0, 0] = np.nan
        return scores


class Complex(Euclidean):
    name = "Complex"
    has_embedding = False

    def similarity(self, queries, gallery):
        return super().similarity(queries, gallery) + 1j


class Talks(Euclidean):
    name = "Talks"

    def fit(self, X, y=None):
        raise ValueError("x" * 5_000_000)


class WrongShape(Euclidean):
    name = "WrongShape"

    def similarity(self, queries, gallery):
        return super().similarity(queries, gallery)[:, :-1]


class Segfaults(Euclidean):
    name = "Segfaults"

    def fit(self, X, y=None):
        ctypes.string_at(0)


class Exits(Euclidean):
    name = "Exits"

    def fit(self, X, y=None):
        os._exit(3)


class Quits(Euclidean):
    name = "Quits"

    def fit(self, X, y=None):
        sys.exit(0)


class Prints(Euclidean):
    name = "Prints"

    def fit(self, X, y=None):
        print("learner on stdout")
        print("learner on stderr", file=sys.stderr)
        os.write(1, b"learner on file descriptor 1\n")
        return super().fit(X, y)


class Reseeds(Euclidean):
    name = "Reseeds"

    def fit(self, X, y=None):
        np.random.seed(7)  # noqa: NPY002
        return super().fit(X, y)


class Holds200MB(Euclidean):
    name = "Holds200MB"

    def fit(self, X, y=None):
        np.ones(HELD_BYTES // 8).sum()
        return super().fit(X, y)


class Holds200MBOnce(Euclidean):
    """Takes the memory in the first fit of its process only, which is the warm-up."""

    name = "Holds200MBOnce"
    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        if self.fits == 1:
            np.ones(HELD_BYTES // 8).sum()
        return super().fit(X, y)

"""Learners of no form: a similarity alone, one that looks at the whole gallery, one that cheats."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from oasis_bench.plugins import MetricLearner


class Overlap(MetricLearner):
    """Defines `similarity` alone, as a learner may."""

    name = "Overlap"
    summary = "histogram intersection"
    citation = "Swain & Ballard, IJCV 1991"

    def fit(self, X, y):
        validate_data(self, X, y)
        self.is_fitted_ = True
        return self

    def similarity(self, queries, gallery):
        check_is_fitted(self)
        queries, gallery = (validate_data(self, part, reset=False) for part in (queries, gallery))
        return np.minimum(queries[:, None], gallery[None]).sum(axis=2)


class CentredGallery(Overlap):
    """Scores by directions from the mean of the gallery, and says so."""

    name = "CentredGallery"
    transductive = True

    def similarity(self, queries, gallery):
        check_is_fitted(self)
        queries, gallery = (validate_data(self, part, reset=False) for part in (queries, gallery))
        return (queries - gallery.mean(axis=0)) @ (gallery - gallery.mean(axis=0)).T


class HiddenlyCentred(CentredGallery):
    """Does the same and does not say so."""

    name = "HiddenlyCentred"
    transductive = False


class RowNumbers(Overlap):
    """Trusts that rows come sorted by class."""

    name = "RowNumbers"

    def similarity(self, queries, gallery):
        super().similarity(queries, gallery)
        return -np.abs(np.arange(len(queries))[:, None] - np.arange(len(gallery)) * 1.0)

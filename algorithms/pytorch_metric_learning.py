"""A linear map of rows, trained by the losses of pytorch-metric-learning (extra `pml`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.axes import principal_axes
from oasis_bench.algorithms.base import TORCH, Count, Positive, SupervisedLearner
from oasis_bench.data import FloatArray
from oasis_bench.plugins import EmbeddingLearner, LinearMap
from oasis_bench.system import require_packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

PROXY_RATE = 100
"""Proxies learn so many times as fast as the map (Kim et al., CVPR 2020)."""


class TrainedMap(SupervisedLearner, LinearMap, EmbeddingLearner):
    r"""A linear map whose embedding has unit length, trained by Adam on batches of rows.

    .. math:: f(x) = \frac{Lx}{|Lx|}, \qquad S(x, y) = -|f(x) - f(y)| .

    The losses are those of pytorch-metric-learning with its defaults.  L starts from the first
    principal axes of the rows, or from the identity if it is square.  With equal seeds and the same
    number of threads the result is the same.  The map does not centre the rows.

    Parameters
    ----------
    n_components : int or None, default None
        The number of rows of L, at most n_features and n_rows.  None: n_features.
    learning_rate : float, default 0.001
        Adam's learning rate for L.  That of the proxies is 100 times as large.
    n_epochs : int, default 100
        The number of passes over all rows.  It is 50 for Proxy-NCA, SupCon and InfoNCE.  On vowel,
        segment and digits 100 changed their mAP by less than two standard deviations of a seed,
        but ArcFace and Proxy-Anchor lost up to .03 with 50.
    batch_size : int, default 256
        The number of rows in a batch.  Batches are random.
    random_state : int, RandomState or None, default None
        The seed of the batches and of the initial proxies.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_features_in_ : int

    References
    ----------
    Musgrave, Belongie & Lim (2020), PyTorch Metric Learning, arXiv:2008.09164.
    """

    cost: ClassVar = "time n d^2 an epoch, memory 4 d^2"
    imports: ClassVar[Sequence[str]] = (*TORCH, "pytorch_metric_learning.losses")
    _packages: ClassVar[tuple[str, ...]] = ("torch", "pytorch_metric_learning")
    _loss_name: ClassVar[str]
    _has_proxies: ClassVar[bool] = False  # a learned vector for each class
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        # Three decades about Adam's own: 33 corpora tuned .1 in 19 to 33 % of the partitions.
        "learning_rate": (1e-3, 1e-5, 1e-4, 1e-2, 0.1, 1.0)
    }
    components_: FloatArray = field(init=False)

    n_components: Count | None = None
    learning_rate: Positive = 1e-3
    n_epochs: Count = 100
    batch_size: Annotated[int, Interval(Integral, 2, None, closed="left")] = 256

    def embed(self, X: Any) -> FloatArray:
        """Return Lx / |Lx| for each row (n_rows, n_components); where Lx is 0, zeros."""
        return np.asarray(normalize(self._check_rows(X) @ self.components_.T, copy=False))

    def _check(self, X: Any, y: Any) -> None:
        require_packages(self.name, self._packages, "pml")
        super()._check(X, y)

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return (5 * d**2 + 2 * n * d) // 2  # of float32, half the bytes

    def _fit(self, X: Any, y: Any) -> None:
        import torch

        n, y = len(X), np.unique(y, return_inverse=True)[1]
        rng = check_random_state(self.random_state)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(rng.randint(2**31))
            rows, numbers = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y)
            linear = torch.nn.Parameter(torch.from_numpy(self._start(X)))
            loss, proxies = self._loss(len(np.unique(y)), len(linear))
            groups = [{"params": [linear], "lr": self.learning_rate}]
            groups += [{"params": proxies, "lr": PROXY_RATE * self.learning_rate}]
            optimiser = torch.optim.Adam(groups)
            for _ in range(self.n_epochs):
                for batch in np.array_split(rng.permutation(n), -(-n // self.batch_size)):
                    optimiser.zero_grad()
                    embedded = torch.nn.functional.normalize(rows[batch] @ linear.T)
                    loss(embedded, numbers[batch]).backward()
                    for weights in (linear, *proxies):  # ArcFace's slope on a proxy is NaN
                        if weights.grad is not None:
                            weights.grad.nan_to_num_(0, 0, 0)
                    optimiser.step()
        self.components_ = linear.detach().numpy().astype(X.dtype)

    def _loss(
        self, n_classes: int, n_components: int
    ) -> tuple[Callable[[Tensor, Tensor], Tensor], list[Any]]:
        """Return what gives the loss of embedded rows and class numbers, and what it learns."""
        from pytorch_metric_learning import losses

        arguments = (n_classes, n_components) if self._has_proxies else ()
        loss = getattr(losses, self._loss_name)(*arguments)
        return loss, list(loss.parameters())

    def _start(self, X: FloatArray) -> Any:
        """Return the L that training begins with."""
        d = X.shape[1]
        if self.n_components is None or self.n_components >= d:
            return np.eye(d, dtype=np.float32)
        axes = principal_axes(X - X.mean(axis=0))[1]
        return axes[: self.n_components].astype(np.float32)


class ProxyNCA(TrainedMap):
    """Proxy-NCA: a row is nearer to the proxy of its class than to the others, by a softmax.

    Parameters and attributes are those of `TrainedMap`.
    """

    name: ClassVar = "pml-ProxyNCA"
    summary: ClassVar = "linear map by Proxy-NCA, pytorch-metric-learning's"
    citation: ClassVar = "Movshovitz-Attias et al., ICCV 2017"
    _loss_name: ClassVar = "ProxyNCALoss"
    _has_proxies: ClassVar = True
    n_epochs: Count = 50


class ProxyAnchor(TrainedMap):
    """Proxy-Anchor: each proxy pulls the rows of its class and pushes others, the hard ones more.

    Parameters and attributes are those of `TrainedMap`.
    """

    name: ClassVar = "pml-ProxyAnchor"
    summary: ClassVar = "linear map by Proxy-Anchor, pytorch-metric-learning's"
    citation: ClassVar = "Kim, Kim, Cho & Kwak, CVPR 2020"
    _loss_name: ClassVar = "ProxyAnchorLoss"
    _has_proxies: ClassVar = True


class ArcFace(TrainedMap):
    """ArcFace: a softmax over classes, with a margin added to the angle to the right one.

    Parameters and attributes are those of `TrainedMap`.
    """

    name: ClassVar = "pml-ArcFace"
    summary: ClassVar = "linear map by ArcFace, pytorch-metric-learning's"
    citation: ClassVar = "Deng, Guo, Xue & Zafeiriou, CVPR 2019"
    _loss_name: ClassVar = "ArcFaceLoss"
    _has_proxies: ClassVar = True


class SupervisedContrastive(TrainedMap):
    """The supervised contrastive loss: rows of a class come before all others, by a softmax.

    Parameters and attributes are those of `TrainedMap`.
    """

    name: ClassVar = "pml-SupCon"
    summary: ClassVar = "linear map by the supervised contrastive loss, pytorch-metric-learning's"
    citation: ClassVar = "Khosla et al., NeurIPS 2020"
    _loss_name: ClassVar = "SupConLoss"
    n_epochs: Count = 50

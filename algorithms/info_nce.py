"""InfoNCE: an adapter of embeddings, trained by a softmax over the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oasis_bench.algorithms.base import TORCH, Count, Positive
from oasis_bench.algorithms.pytorch_metric_learning import TrainedMap

if TYPE_CHECKING:
    from torch import Tensor


class InfoNCE(TrainedMap):
    r"""A square matrix near the identity, and the cosine: how users adapt given embeddings.

    .. math::

        f(x) = \frac{L x}{|L x|}, \qquad s(i, j) = f(x_i)^\top f(x_j), \qquad
        - \log \frac{e^{s(i, p) / \tau}}
        {e^{s(i, p) / \tau} + \sum_{k: y_k \ne y_i} e^{s(i, k) / \tau}} .

    Adam minimises the mean of this loss over the pairs (i, p) of one class in a batch.  The rows of
    other classes in the batch are the negatives.  The supervised contrastive loss also compares p
    with the other rows of its class; this one does not, so rows that are near enough are no longer
    pulled.  L starts from the identity; the learning rate and the epochs say how near it
    stays.  Parameters that are not listed are those of `TrainedMap`, and so are the attributes.

    Parameters
    ----------
    temperature : float, default 0.05
        The smaller, the more the nearest negatives weigh.

    References
    ----------
    van den Oord, Li & Vinyals (2018), Representation Learning with Contrastive Predictive Coding,
    arXiv:1807.03748: the loss.  Henderson et al. (2017), Efficient Natural Language Response
    Suggestion for Smart Reply, arXiv:1705.00652: negatives from the batch.
    """

    name: ClassVar = "InfoNCE"
    summary: ClassVar = "adapter of embeddings: a matrix near the identity, by a softmax of cosines"
    citation: ClassVar = "van den Oord, Li & Vinyals, arXiv:1807.03748 (2018)"
    imports: ClassVar = TORCH
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        **TrainedMap.search_space,
        "temperature": (0.05, 0.01, 0.02, 0.1, 0.2, 0.5),  # .01 is CLIP's least, .5 SimCLR's most
    }
    _packages: ClassVar = ("torch",)
    _least_in_largest: ClassVar = 2

    n_epochs: Count = 50
    temperature: Positive = 0.05

    def _loss(
        self, n_classes: int, n_components: int
    ) -> tuple[Callable[[Tensor, Tensor], Tensor], list[Any]]:
        import torch

        def loss(embedded: Tensor, y: Tensor) -> Tensor:
            logits = embedded @ embedded.T / self.temperature
            same = y[:, None] == y
            negatives = torch.where(same, -torch.inf, logits).logsumexp(dim=1, keepdim=True)
            losses = torch.logaddexp(logits, negatives) - logits
            return losses[same & ~torch.eye(len(y), dtype=torch.bool)].mean()

        return loss, []

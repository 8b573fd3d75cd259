"""How well a similarity ranks; see `oasis_bench.tasks.retrieval`."""

from oasis_bench.tasks import RankingMeasures, average_precision, evaluate_ranking, precision_at_k

__all__ = ["RankingMeasures", "average_precision", "evaluate_ranking", "precision_at_k"]

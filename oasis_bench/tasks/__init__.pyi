from .chance import average_precision_of_chance as average_precision_of_chance
from .classification import (
    vote as vote,
)
from .judged_tasks import human_level as human_level
from .ranking import (
    Numbers as Numbers,
    as_items as as_items,
    block_size as block_size,
    kernel_ready as kernel_ready,
    rank_others as rank_others,
    refuse_nan as refuse_nan,
    score_bilinear as score_bilinear,
    score_sparse as score_sparse,
    take_items as take_items,
    tie_order as tie_order,
    top_k as top_k,
)
from .retrieval import (
    RankingMeasures as RankingMeasures,
    Retrieval as Retrieval,
    SharedLabels as SharedLabels,
    evaluate_ranking as evaluate_ranking,
)
from .split import (
    NotSplittableError as NotSplittableError,
    Partition as Partition,
    SameClassesSplit as SameClassesSplit,
    SeenClassesSplit as SeenClassesSplit,
    Split as Split,
    draw_partition as draw_partition,
    possible_folds as possible_folds,
)
from .task import (
    Evaluation as Evaluation,
    Task as Task,
    Truth as Truth,
)
from .verification import Calibration as Calibration, Verification as Verification

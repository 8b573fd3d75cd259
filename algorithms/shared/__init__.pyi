from .axes import (
    AXES_GRID as AXES_GRID,
    WithinClassLearner as WithinClassLearner,
    axes_to_keep as axes_to_keep,
    pair_scatter as pair_scatter,
    principal_axes as principal_axes,
    refuse_classes_of_equal_rows as refuse_classes_of_equal_rows,
    rounding as rounding,
    whitening as whitening,
)
from .hyper_parameters import HyperParameters as HyperParameters
from .label_learner import (
    LabelLearner as LabelLearner,
    possible_neighbours as possible_neighbours,
)
from .triplet_learner import (
    TRIPLETS_PER_DRAW as TRIPLETS_PER_DRAW,
    LogDetLearner as LogDetLearner,
    TripletLearner as TripletLearner,
    TripletSampler as TripletSampler,
    check_triplets as check_triplets,
    uses_twin as uses_twin,
)

from .budget import search_of as search_of
from .changes import changed as changed
from .identity import (
    SEEN_CLASSES as SEEN_CLASSES,
    WORDS as WORDS,
    cell_name as cell_name,
    refuse_changed_source as refuse_changed_source,
    refuse_what_changed as refuse_what_changed,
    source_hash as source_hash,
)
from .judged_splits import draw_groups as draw_groups, group_folds as group_folds
from .queries import Queries as Queries
from .quick import QUICK_REMARK as QUICK_REMARK, quick_settings as quick_settings
from .saved_model import (
    match_columns as match_columns,
    refuse_changed_model as refuse_changed_model,
    seen_remarks as seen_remarks,
)
from .search import Candidate as Candidate
from .settings import (
    BUILT_IN as BUILT_IN,
    DEFAULT_TEST as DEFAULT_TEST,
    DEFAULT_TRAIN as DEFAULT_TRAIN,
    LIMITS as LIMITS,
    Experiment as Experiment,
    LearnerSpec as LearnerSpec,
    built_in_experiments as built_in_experiments,
    known_settings as known_settings,
)
from .sizes import (
    few_train_remark as few_train_remark,
    part_remark as part_remark,
    settled_as as settled_as,
    size_remark as size_remark,
)
from .splits import (
    Indices as Indices,
    Partition as Partition,
    draw_partition as draw_partition,
    draw_share as draw_share,
    draw_unseen_classes as draw_unseen_classes,
    inner_folds as inner_folds,
    take_fold as take_fold,
    too_few_for_folds as too_few_for_folds,
    unseen_class_folds as unseen_class_folds,
)
from .subsets import refuse_unknown_subsets as refuse_unknown_subsets
from .trials import (
    ChooseBy as ChooseBy,
    TrialSpec as TrialSpec,
    find_grids as find_grids,
    find_tasks as find_tasks,
    identities as identities,
    plan as plan,
    scalings_of as scalings_of,
)

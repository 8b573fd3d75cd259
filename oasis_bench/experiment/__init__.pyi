from .data_use import (
    Queries as Queries,
    refuse_unknown_subsets as refuse_unknown_subsets,
    settled_as as settled_as,
)
from .identity import (
    WORDS as WORDS,
    cell_name as cell_name,
    package_hash as package_hash,
    refuse_what_changed as refuse_what_changed,
    source_hash as source_hash,
)
from .saved_model import (
    match_columns as match_columns,
    saved_steps as saved_steps,
)
from .setting import Duration as Duration, Search as Search
from .settings import (
    DEFAULT_TEST as DEFAULT_TEST,
    DEFAULT_TRAIN as DEFAULT_TRAIN,
    LIMITS as LIMITS,
    QUICK_REMARK as QUICK_REMARK,
    Experiment as Experiment,
    LearnerSpec as LearnerSpec,
    built_in_experiments as built_in_experiments,
    changed as changed,
    known_settings as known_settings,
    quick_settings as quick_settings,
    tasks_by_option as tasks_by_option,
)
from .trials import (
    Candidate as Candidate,
    ChooseBy as ChooseBy,
    TrialSpec as TrialSpec,
    find_tasks as find_tasks,
    identities as identities,
    plan as plan,
    refuse_unknown_names as refuse_unknown_names,
    remarks_on as remarks_on,
    scalings_of as scalings_of,
    split_of as split_of,
)

from .data_use import (
    named_queries as named_queries,
    refuse_unknown_subsets as refuse_unknown_subsets,
    task_of_judgements as task_of_judgements,
)
from .file import (
    built_in_names as built_in_names,
    changed as changed,
    on_corpora as on_corpora,
    read_experiment as read_experiment,
)
from .identity import (
    package_hash as package_hash,
    source_hash as source_hash,
)
from .saved_model import (
    model_experiment as model_experiment,
    saved_steps as saved_steps,
)
from .setting import Duration as Duration, Search as Search
from .settings import (
    FIT_SETTINGS as FIT_SETTINGS,
    Experiment as Experiment,
    LearnerSpec as LearnerSpec,
)
from .trials import (
    Candidate as Candidate,
    ChooseBy as ChooseBy,
    Plan as Plan,
    TrialSpec as TrialSpec,
    cell_name as cell_name,
    refuse_unknown_names as refuse_unknown_names,
)

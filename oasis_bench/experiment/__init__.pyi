from .data_use import (
    named_queries as named_queries,
    refuse_unknown_subsets as refuse_unknown_subsets,
    task_of_judgements as task_of_judgements,
)
from .identity import (
    package_hash as package_hash,
)
from .saved_model import (
    load_rows as load_rows,
    saved_steps as saved_steps,
)
from .setting import Duration as Duration, Search as Search
from .settings import (
    Experiment as Experiment,
    LearnerSpec as LearnerSpec,
    built_in_names as built_in_names,
    tasks_by_option as tasks_by_option,
)
from .trials import (
    Candidate as Candidate,
    ChooseBy as ChooseBy,
    TrialSpec as TrialSpec,
    cell_name as cell_name,
    plan as plan,
    refuse_unknown_names as refuse_unknown_names,
    remarks_on as remarks_on,
)

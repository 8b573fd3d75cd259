from .fitting import fit_on_all as fit_on_all
from .kept_scores import evaluate_run as evaluate_run, export_trec as export_trec
from .run import (
    refuse_missing_plugins as refuse_missing_plugins,
    resume_experiment as resume_experiment,
    run_experiment as run_experiment,
)
from .schema import RunFacts as RunFacts, SplitSource as SplitSource, TaskSource as TaskSource
from .store import (
    StoredRun as StoredRun,
    has_run as has_run,
    new_run_folder as new_run_folder,
    read_run as read_run,
    refuse_used_folder as refuse_used_folder,
)

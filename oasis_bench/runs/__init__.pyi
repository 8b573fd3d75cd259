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
    read_run as read_run,
)

from .fitting import fit_on_all as fit_on_all
from .kept_scores import evaluate_run as evaluate_run, export_trec as export_trec
from .run import (
    How as How,
    Watcher as Watcher,
    in_file_name as in_file_name,
    refuse_missing_plugins as refuse_missing_plugins,
    resume_experiment as resume_experiment,
    run_experiment as run_experiment,
)
from .schema import RunFacts as RunFacts
from .several import (
    go_on as go_on,
    go_on_or_leave_out as go_on_or_leave_out,
    has_result as has_result,
    results_folder as results_folder,
)
from .store import (
    StoredRun as StoredRun,
    has_run as has_run,
    new_run_folder as new_run_folder,
    read_run as read_run,
    refuse_used_folder as refuse_used_folder,
)

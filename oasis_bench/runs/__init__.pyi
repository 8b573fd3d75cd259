from .experiments import (
    expected_seconds as expected_seconds,
    has_result as has_result,
    how_far as how_far,
    lists_of_values as lists_of_values,
    model_experiment as model_experiment,
    one_for_each_value as one_for_each_value,
    results_folder as results_folder,
)
from .fitting import fit_on_all as fit_on_all
from .kept_scores import evaluate_run as evaluate_run, export_trec as export_trec
from .run import (
    new_folder as new_folder,
    resume_experiment as resume_experiment,
    run_experiment as run_experiment,
)
from .schema import RunFacts as RunFacts, SplitSource as SplitSource, TaskSource as TaskSource
from .store import (
    StoredRun as StoredRun,
    holds_run as holds_run,
    read_run as read_run,
    refuse_used_folder as refuse_used_folder,
)

from .evaluate import evaluate_run as evaluate_run, model_experiment as model_experiment
from .run import (
    new_folder as new_folder,
    resume_experiment as resume_experiment,
    run_experiment as run_experiment,
)
from .several import (
    begun as begun,
    finished as finished,
    one_for_each_value as one_for_each_value,
    what_varies as what_varies,
)
from .trec import export_trec as export_trec

from .entry import main as main
from .parsing import DATA_OPTIONS as DATA_OPTIONS
from .printed import Printed as Printed
from .progress import ProgressDisplay as ProgressDisplay
from .run import (
    expected_seconds as expected_seconds,
    has_result as has_result,
    model_experiment as model_experiment,
)

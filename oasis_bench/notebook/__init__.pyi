from .result import RunResult as RunResult
from .running import fit as fit, run as run

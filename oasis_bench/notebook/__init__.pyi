from .result import RunResult as RunResult
from .running import run as run

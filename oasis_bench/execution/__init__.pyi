from .fork_server import start_early as start_early
from .machine import Executor as Executor, executor as executor

from .executors import Executor as Executor
from .executors import executor as executor
from .fork_server import borrow as borrow
from .fork_server import give_back as give_back

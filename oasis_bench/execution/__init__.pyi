from .fork_server import borrow as borrow, give_back as give_back
from .machine import Executor as Executor, executor as executor

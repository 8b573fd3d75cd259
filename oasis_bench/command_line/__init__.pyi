from .entry import main as main
from .parsing import DATA_OPTIONS as DATA_OPTIONS
from .printed import Printed as Printed
from .progress import ProgressDisplay as ProgressDisplay

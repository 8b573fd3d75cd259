from .entry import main as main
from .printed import Printed as Printed
from .progress import ProgressDisplay as ProgressDisplay

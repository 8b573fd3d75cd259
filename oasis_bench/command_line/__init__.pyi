from .entry import main as main
from .printed import Printed as Printed
from .progress import ProgressDisplay as ProgressDisplay
from .run import carry_out as carry_out

from .entry import main as main
from .printed import Printed as Printed

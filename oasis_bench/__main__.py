"""Entry of `python -m oasis_bench`: checks the installation, then starts the command line."""

# PYTHON_ARGCOMPLETE_OK: its global activation in a shell looks for this.

import gc
import os
import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import NoReturn

from oasis_bench.command_line import Printed


def main() -> int:
    """Run the command line, or say in one line why this installation cannot."""
    os.environ["PYTHON_COLORS"] = "0"  # no escape sequences of Python's own either
    _open_standard_descriptors()
    sys.stdout, sys.stderr = Printed(sys.stdout), Printed(sys.stderr)
    interrupts = []

    def note(number: int, frame: object) -> NoReturn:
        interrupts.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    try:
        status = _main()
    except (KeyboardInterrupt, Exception):  # compiled modules make an ImportError of an interrupt
        if not interrupts:
            raise
        print("oasis-bench: interrupted", file=sys.stderr)
        status = 130
    gc.freeze()  # what is alive now ends with the process: the end takes 0.3 s less
    return status


def _main() -> int:
    for module in ("oasis_bench.algorithms", "oasis_bench.sampling._class_triplets"):
        if not _is_there(module):
            print(
                f"oasis-bench: the source folder here has no {module}: run 'pip install -e .' in "
                "it, or start an installed oasis-bench from another folder",
                file=sys.stderr,
            )
            return 2
    from oasis_bench.command_line import main as run_command_line

    return run_command_line()


def _open_standard_descriptors() -> None:
    """Open the null device as each of descriptors 0 to 2 that is closed, as after ``2>&-``.

    Else the next file that is opened has its number, and gets what others print.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(null, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _is_there(module: str) -> bool:
    """Tell whether a module can be found, without importing the package that it is in.

    That of a kernel imports NumPy and SciPy.
    """
    package, _, name = module.rpartition(".")
    if package == "oasis_bench":
        return find_spec(module) is not None
    found = find_spec(package)
    return found is not None and bool(PathFinder.find_spec(name, found.submodule_search_locations))


if __name__ == "__main__":
    sys.exit(main())

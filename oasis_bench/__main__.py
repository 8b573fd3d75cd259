"""Entry of `python -m oasis_bench`: checks the installation, then starts the command line."""

import gc
import sys
from importlib.util import find_spec


def main() -> int:
    """Run the command line, or say in one line why this installation cannot."""
    for kernel in ("oasis_bench.algorithms", "oasis_bench.sampling._class_triplets"):
        if find_spec(kernel) is None:
            print(
                f"oasis-bench: the source folder here has no {kernel}: run 'pip install -e .' in "
                "it, or start an installed oasis-bench from another folder",
                file=sys.stderr,
            )
            return 2
    from oasis_bench.command_line.main import main as run_command_line

    status = run_command_line()
    gc.freeze()  # what is alive now ends with the process: the end takes 0.3 s less
    return status


if __name__ == "__main__":
    sys.exit(main())

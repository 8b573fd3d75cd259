"""OASIS steps as a plain C loop (`yardstick.c`), compiled for this machine where it is measured.

Not a benchmark itself, and not for users: nothing is validated.
"""

import ctypes
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

SOURCE = Path(__file__).with_name("yardstick.c")

FLAGS = ["-O3 -march=native", "-O3 -march=native -ffast-math"]
"""For all instructions of this machine; and with sums in any order, which vectorises them, as our
kernels are compiled too."""

C_TYPES = {"float32": "float", "float64": "double"}


def compiler():
    """Return the command of the C compiler that Python was built with, else cc."""
    for command in (sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise FileNotFoundError("there is no C compiler for the yardstick: install gcc or clang")


class Yardstick:
    """Plain OASIS steps on rows of one type of numbers.

    Parameters
    ----------
    dtype : {'float32', 'float64'}
    flags : str
        Of the compiler.
    """

    def __init__(self, dtype, flags):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "yardstick.so"
            options = [*shlex.split(flags), f"-Dreal={C_TYPES[dtype]}", "-shared", "-fPIC"]
            subprocess.run([*compiler(), *options, "-o", library, SOURCE], check=True)
            self._library = ctypes.CDLL(str(library))
        reals, columns, triplets = (
            np.ctypeslib.ndpointer(t, flags="C") for t in (dtype, np.int32, np.int64)
        )
        others = [triplets, ctypes.c_ssize_t, ctypes.c_double, reals, ctypes.c_ssize_t]
        self._library.step_csr.argtypes = [reals, columns, columns, *others]
        self._library.step_dense.argtypes = [reals, *others]
        for function in (self._library.step_csr, self._library.step_dense):
            function.restype = ctypes.c_ssize_t

    def learn(self, X, triplets, aggressiveness, W):
        """Apply the steps to `W` in place; return how many changed it.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            CSR: sorted, without duplicates, int32 indices.
        triplets : int64 array of shape (n_triplets, 3)
        aggressiveness : float
            C.
        W : array of shape (n_features, n_features)
        """
        others = triplets, len(triplets), aggressiveness, W, len(W)
        if sparse.issparse(X):
            n_updates = self._library.step_csr(X.data, X.indices, X.indptr, *others)
        else:
            n_updates = self._library.step_dense(X, *others)
        if n_updates < 0:
            raise MemoryError("the yardstick got no memory")
        return n_updates

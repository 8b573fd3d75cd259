"""MiniBatchOASIS: wall time of 131 072 steps, peak memory, and its mAP beside that of OASIS."""

from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS, MiniBatchOASIS
from oasis_bench.tasks import evaluate_ranking

from . import rows

N_STEPS = 131_072
DTYPES = ["float32", "float64"]

timeout = 300  # seconds a benchmark, for busy machines: asv reads it


class Learner:
    """Checks of the input and sampling included."""

    params = (
        [("sparse 1000", 64), ("sparse 10000", 16_384), ("sparse 10000", 65_536)],
        DTYPES,
        [1, 2],
    )
    param_names = ("rows and batch size", "dtype", "threads")

    def setup(self, case, dtype, threads):
        kind, batch_size = case
        self.rows = rows.noise(kind, dtype)
        self.learner = MiniBatchOASIS(batch_size, threads, random_state=0)
        self.learner.partial_fit(*self.rows, n_steps=batch_size)

    def time_steps(self, case, dtype, threads):
        self.learner.partial_fit(*self.rows, n_steps=N_STEPS)


class Wide:
    """10 000 features: W takes 400 MB in float32."""

    params = DTYPES
    param_names = ("dtype",)

    def setup(self, dtype):
        self.rows = rows.noise("sparse 10000", dtype)

    def peakmem_fit(self, dtype):
        MiniBatchOASIS(65_536, 2, n_steps=N_STEPS, random_state=0).fit(*self.rows)


class Digits:
    """Learned from 900 digits, measured on the others; OASIS is the batch of one triplet."""

    params = (1, 64, 256, 1024, 4096)
    param_names = ("batch size",)

    def track_mean_average_precision(self, batch_size):
        X, y = load_digits(return_X_y=True)
        X = normalize(X)
        learner = OASIS() if batch_size == 1 else MiniBatchOASIS(batch_size, n_threads=1)
        learner.set_params(n_steps=200_000, random_state=0).fit(X[:900], y[:900])
        measured = evaluate_ranking(learner.similarity, X[900:], y[900:], seed=0)
        return measured.mean_average_precision

    track_mean_average_precision.unit = "mAP"

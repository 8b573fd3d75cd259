"""The compiled kernels and their compiler directives; everything else is in pyproject.toml."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

# OASIS_BENCH_DEBUG_KERNELS=1 builds kernels that check every index, for hunting a crash.
DEBUG = os.environ.get("OASIS_BENCH_DEBUG_KERNELS") == "1"

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FLAGS = ["-O3", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]

KERNELS = {
    "oasis_bench._ranking": "oasis_bench/_ranking.pyx",
    "oasis_bench.sampling._class_triplets": "oasis_bench/sampling/_class_triplets.pyx",
    "oasis_bench.sampling._relevance_triplets": "oasis_bench/sampling/_relevance_triplets.pyx",
    "oasis_bench.algorithms._mcml": "algorithms/_mcml.pyx",
    "oasis_bench.algorithms._lmnn": "algorithms/_lmnn.pyx",
    "oasis_bench.algorithms._oasis": "algorithms/_oasis.pyx",
    "oasis_bench.algorithms._oasis_blocks": "algorithms/_oasis_blocks.pyx",
    "oasis_bench.algorithms._oasis_symmetric": "algorithms/_oasis_symmetric.pyx",
    "oasis_bench.algorithms._rank_one_steps": "algorithms/_rank_one_steps.pyx",
}

setup(
    options={"build_ext": {"parallel": os.cpu_count()}},  # kernels at a time
    ext_modules=cythonize(
        [
            Extension(
                name,
                [source],
                include_dirs=["algorithms", "oasis_bench", "oasis_bench/sampling"],
                depends=[
                    "algorithms/_blocks.h",
                    "algorithms/_blocks_all.h",
                    "algorithms/_differences.pxd",
                    "algorithms/_lmnn.h",
                    "algorithms/_mcml.h",
                    "algorithms/_rows.h",
                    "algorithms/_rows_all.h",
                    "oasis_bench/_multiversioned.h",
                    "oasis_bench/_ranking.h",
                    "oasis_bench/_ranking_all.h",
                    "oasis_bench/sampling/_random.h",
                ],
                extra_compile_args=[] if os.name == "nt" else FLAGS,
            )
            for name, source in KERNELS.items()
        ],
        include_path=["algorithms"],
        build_dir="build/cython",
        force=DEBUG,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": True,
        },
    ),
)

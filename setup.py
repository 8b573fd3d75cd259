"""The compiled kernels and their compiler directives; everything else is in pyproject.toml."""

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# OASIS_BENCH_DEBUG_KERNELS=1 builds kernels that check every index, for hunting a crash.
DEBUG = os.environ.get("OASIS_BENCH_DEBUG_KERNELS") == "1"

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FLAGS = ["-O3", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]

LOCAL_DISTANCES = "oasis_bench.algorithms.local_distances"

KERNELS = {
    "oasis_bench.tasks._ranking": "oasis_bench/tasks/_ranking.pyx",
    "oasis_bench.sampling._class_triplets": "oasis_bench/sampling/_class_triplets.pyx",
    "oasis_bench.sampling._relevance_triplets": "oasis_bench/sampling/_relevance_triplets.pyx",
    "oasis_bench.algorithms._neighbour_choice": "algorithms/_neighbour_choice.pyx",
    "oasis_bench.algorithms.lmnn._lmnn": "algorithms/lmnn/_lmnn.pyx",
    "oasis_bench.algorithms.oasis._steps": "algorithms/oasis/_steps.pyx",
    "oasis_bench.algorithms.oasis._blocks": "algorithms/oasis/_blocks.pyx",
    "oasis_bench.algorithms.oasis._symmetric_steps": "algorithms/oasis/_symmetric_steps.pyx",
    f"{LOCAL_DISTANCES}._row_action": "algorithms/local_distances/_row_action.pyx",
    "oasis_bench.algorithms.logdet._rank_one_steps": "algorithms/logdet/_rank_one_steps.pyx",
}

HEADERS = [
    header
    for kind in ("h", "pxd")
    for folder in ("oasis_bench", "algorithms")
    for header in glob(f"{folder}/**/*.{kind}", recursive=True)
]

setup(
    options={"build_ext": {"parallel": os.cpu_count()}},  # kernels at a time
    ext_modules=cythonize(
        [
            Extension(
                name,
                [source],
                include_dirs=[os.path.dirname(source), "algorithms", "oasis_bench/system"],
                depends=HEADERS,
                extra_compile_args=FLAGS,
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

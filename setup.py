"""The compiled kernels and their compiler directives; everything else is in pyproject.toml."""

import os
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# OASIS_BENCH_DEBUG_KERNELS=1 builds kernels that check every index, for hunting a crash.
DEBUG = os.environ.get("OASIS_BENCH_DEBUG_KERNELS") == "1"

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FLAGS = ["-O3", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]

DIRECTIVES = {
    "language_level": 3,
    "allow_none_for_extension_args": False,  # None for an array would crash
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
}


def are_as_before(directives):
    """Note these directives; tell whether the last build here had them, as Cython does not."""
    file, text = Path("build/directives.txt"), repr(directives)
    are_equal = file.is_file() and file.read_text() == text
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return are_equal


KERNELS = {  # by their modules: the wing `algorithms` is installed as oasis_bench.algorithms
    source.removeprefix("oasis_bench/").removesuffix(".pyx").replace("/", "."): source
    for folder in ("oasis_bench", "algorithms")
    for source in sorted(glob(f"{folder}/**/*.pyx", recursive=True))
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
                f"oasis_bench.{name}",
                [source],
                include_dirs=[os.path.dirname(source), "algorithms", "oasis_bench/system"],
                depends=HEADERS,
                extra_compile_args=FLAGS,
            )
            for name, source in KERNELS.items()
        ],
        include_path=["algorithms"],
        build_dir="build/cython",
        force=not are_as_before(DIRECTIVES),
        compiler_directives=DIRECTIVES,
    ),
)

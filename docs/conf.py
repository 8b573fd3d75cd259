"""Settings of the site: `sphinx-build -W --keep-going -b html docs docs/_build`.

Nothing is fetched: formulas are MathML, scripts and fonts come with the theme, and links to other
projects' pages are plain links.
"""

import os
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import pandas as pd

import oasis_bench
from oasis_bench.plugins import load_reports

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "extension"))

# The examples keep what they compute out of the user's cache, and show no progress bars.
os.environ["TQDM_DISABLE"] = "1"
os.environ.setdefault("OASIS_BENCH_CACHE", str(Path(tempfile.gettempdir(), "oasis-bench-site")))

project = "oasis-bench"
author = "the oasis-bench founders"
project_copyright = "2026, the oasis-bench founders"
version = release = oasis_bench.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
]
exclude_patterns = ["_build", "_extra", "examples", "results"]
templates_path = ["_templates"]
default_role = "py:obj"
math_number_all = True

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_imported_members = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",  # examples of a class, for its page
    "doc_module": ("oasis_bench",),
    "reset_modules": ("matplotlib",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its page would fetch scripts
}

# The page whose tables sort and filter, from the published results of the suite.
with chdir(DOCS):  # so that the page names the files by paths of the repository
    load_reports().write_ranks([Path("results", "suite")], Path("_extra", "ranks"))
    # All of these results as one file, for those who do not have the repository.
    files = sorted(Path("results", "suite").rglob("*.csv"))
    results = pd.concat(map(pd.read_csv, files))
    results["seed"] = results["command"].str.extract(r"--seed (\d+)")[0].fillna("0").astype(int)
    results.to_csv(Path("_extra", "suite.csv.gz"), index=False)
    results.to_parquet(Path("_extra", "suite.parquet"), index=False)
html_extra_path = ["_extra"]

html_theme = "pydata_sphinx_theme"
html_title = "oasis-bench"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {
    "index": [],
    "tour": [],
    "suite": [],
    "learners": [],
    "mathematics": [],
    "measured": [],
    "claims": [],
    "leaderboard": [],
    "tables/*": [],
}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 9,
    "navbar_align": "left",  # all links fit in one line of 1200 pixels
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
}

"""The built-in experiment files; `oasis_bench.experiment` reads them."""

"""The built-in experiment files; `oasis_bench.experiment.settings` reads them."""

"""Fitted learners in files; see `oasis_bench.plugins.model_file`."""

from oasis_bench.plugins import load_model, save_model

__all__ = ["load_model", "save_model"]

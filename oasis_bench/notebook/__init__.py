"""A run from Python: `oasis_bench.run`, and its result as a notebook shows it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Triplet samplers: who is the query, the positive and the negative of each step."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

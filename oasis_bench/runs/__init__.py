"""A run's folder: an experiment carried out into it, stored, gone on with, exported, evaluated."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

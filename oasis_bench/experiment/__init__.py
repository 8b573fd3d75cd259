"""From an experiment file to a list of trials: settings, splits, seeds, identity, budget."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""What is asked of a fitted learner, and its measures; the one home of ranking."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""What the papers claim: each claim with the rule that decides it, and its verdict from runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

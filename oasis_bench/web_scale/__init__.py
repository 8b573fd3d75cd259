"""The papers' web-scale experiment (JMLR 2010, section 5.2): trainings on millions of images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

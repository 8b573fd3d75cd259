"""Tables, figures and HTML pages, made from stored runs alone: `__init__.pyi` is the index."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

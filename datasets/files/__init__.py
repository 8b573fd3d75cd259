"""Files of data sets: where they lie, how they are fetched, and what the cache keeps."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Where trials run: on this machine or on a Dask cluster, each in processes of its own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

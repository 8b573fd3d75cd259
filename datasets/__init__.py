"""The data sets, found by the registry through the entry points.

`TableFile`, `ImageFolder` and `OwnTriplets` are the user's own: they are made from a path.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

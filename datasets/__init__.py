"""The data sets, found by the registry in the door `__init__.pyi`.

`TableFile`, `ImageFolder` and `OwnTriplets` read the user's own data from a path.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

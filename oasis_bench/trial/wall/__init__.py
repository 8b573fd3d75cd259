"""The wall of a trial: all that passes between the learner's side and the harness's side.

The learner's side runs a plugin's code: it never has a test label, and its clock is not trusted.
The harness's side has the test labels and the clock.  Neither imports the other.  Between them pass
an `Assignment` and the name of a stage, `messages`, and items and models in `sealed` files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

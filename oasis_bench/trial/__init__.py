"""One trial, with a wall down the middle: a learner sees no test label and holds no clock.

`learner_side` runs beside the plugin; `harness_side` has the labels and the clock; neither imports
the other.  What passes between them is in `wall`.

- What is timed: `_fit` and `_score` of `learner_side.stages`, by `learner_side.meter.Meter`; from
  the other side by `harness_side.inbox.HarnessClock`, in `harness_side.stages`.
- What sees a test label: `harness_side.items` draws them, `harness_side.evaluator` uses them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

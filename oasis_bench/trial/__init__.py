"""One trial, with a wall down the middle: a learner sees no test label and holds no clock.

`learner_side` runs beside the plugin; `harness_side` has the labels and the clock; neither imports
the other.  `wall` has the messages and files that pass between them.

- Timed code: `learner_side.meter.Meter` times `_fit` and `_score` of `learner_side.stages`; on the
  other side `harness_side.inbox.HarnessClock` times them, in `harness_side.stages`.
- Test labels: `harness_side.items` draws them, `harness_side.evaluator` uses them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

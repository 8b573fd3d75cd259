from .harness_side.conversation import Conversation as Conversation
from .harness_side.evaluator import TRAINING as TRAINING, Measured as Measured
from .harness_side.inbox import CLOCK_IN_WORDS as CLOCK_IN_WORDS
from .harness_side.items import draw_items as draw_items
from .harness_side.result import TrialResult as TrialResult
from .harness_side.rows import TunedRow as TunedRow
from .harness_side.trials import Predictions as Predictions, Trials as Trials
from .learner_side.fit_data import FitData as FitData
from .learner_side.stages import learner_process as learner_process
from .wall.assignment import Assignment as Assignment

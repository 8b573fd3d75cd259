from .evaluator import Evaluator as Evaluator, answer as answer, reason_against as reason_against
from .fit_data import FitData as FitData, preferences as preferences
from .items import (
    NotApplicableError as NotApplicableError,
    TrialItems as TrialItems,
    draw_items as draw_items,
    refuse_untested_queries as refuse_untested_queries,
)
from .messages import (
    WITH_FILE as WITH_FILE,
    Message as Message,
    MessageError as MessageError,
    PhaseBegan as PhaseBegan,
    ScoreArray as ScoreArray,
    Scores as Scores,
    Started as Started,
    from_line as from_line,
    to_line as to_line,
)
from .output_files import (
    MODELS as MODELS,
    OUTPUT_LOG as OUTPUT_LOG,
    PREDICTIONS as PREDICTIONS,
    UNFINISHED as UNFINISHED,
    PrintedOutput as PrintedOutput,
    append_to as append_to,
)
from .predictions import Predictions as Predictions, what_was_scored as what_was_scored
from .record import TrialResult as TrialResult, lost_record as lost_record
from .sealed_items import Sealed as Sealed, SealedItems as SealedItems
from .stages import Stage as Stage, run_stage as run_stage
from .traces import TRAINING as TRAINING
from .trial_state import TrialState as TrialState

from .harness_side.clock import CLOCK_IN_WORDS as CLOCK_IN_WORDS
from .harness_side.conversation import Conversation as Conversation
from .harness_side.evaluator import (
    TRAINING as TRAINING,
    Evaluator as Evaluator,
    Mix as Mix,
    answer as answer,
    mix_of as mix_of,
    reason_against as reason_against,
)
from .harness_side.inbox import Inbox as Inbox
from .harness_side.items import (
    SealedItems as SealedItems,
    TrialItems as TrialItems,
    draw_items as draw_items,
    refuse_untested_queries as refuse_untested_queries,
)
from .harness_side.kept_files import (
    MODELS as MODELS,
    OUTPUT_LOG as OUTPUT_LOG,
    PREDICTIONS as PREDICTIONS,
    UNFINISHED as UNFINISHED,
    Predictions as Predictions,
    PrintedOutput as PrintedOutput,
    append_to as append_to,
)
from .harness_side.result import TrialResult as TrialResult, lost_record as lost_record
from .harness_side.trials import Trials as Trials
from .learner_side.fit_data import FitData as FitData
from .learner_side.process import learner_process as learner_process
from .wall import (
    ANSWER as ANSWER,
    FIT as FIT,
    LEARNING as LEARNING,
    LOAD as LOAD,
    LONGEST_NAME as LONGEST_NAME,
    MOST_NUMBERS as MOST_NUMBERS,
    MOST_SCORE_BYTES as MOST_SCORE_BYTES,
    REPLAY as REPLAY,
    VALIDATION as VALIDATION,
    WARM_UP as WARM_UP,
    WITH_FILE as WITH_FILE,
    Compared as Compared,
    Ended as Ended,
    Fitted as Fitted,
    Loaded as Loaded,
    Message as Message,
    MessageError as MessageError,
    NotApplicableError as NotApplicableError,
    PhaseBegan as PhaseBegan,
    Queried as Queried,
    Replayed as Replayed,
    Saved as Saved,
    ScoreArray as ScoreArray,
    Scores as Scores,
    Stage as Stage,
    StageName as StageName,
    Started as Started,
    Tuned as Tuned,
    Validated as Validated,
    checkpoints as checkpoints,
    folds_at_once as folds_at_once,
    from_line as from_line,
    is_blended as is_blended,
    judgements_of as judgements_of,
    judgements_to_arrays as judgements_to_arrays,
    learn_preparation as learn_preparation,
    map_items as map_items,
    needs_search as needs_search,
    needs_tuning as needs_tuning,
    seal_items as seal_items,
    to_line as to_line,
)

from .forecast import chance_level as chance_level, forecast_lines as forecast_lines
from .training import (
    PRECISION_AT as PRECISION_AT,
    STEPS_PER_IMAGE as STEPS_PER_IMAGE,
    Checkpoint as Checkpoint,
    Training as Training,
    TrainingRecord as TrainingRecord,
    open_data as open_data,
    read_records as read_records,
    refuse_other_data as refuse_other_data,
    test_queries as test_queries,
    train as train,
    trainings as trainings,
)

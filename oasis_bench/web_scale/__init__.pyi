from .training import (
    PRECISION_AT as PRECISION_AT,
    Checkpoint as Checkpoint,
    Training as Training,
    TrainingRecord as TrainingRecord,
    chance_level as chance_level,
    read_records as read_records,
    test_queries as test_queries,
    train as train,
    trainings as trainings,
)

from .training import (
    Checkpoint as Checkpoint,
    Training as Training,
    TrainingRecord as TrainingRecord,
    chance_level as chance_level,
    checkpoints_of as checkpoints_of,
    read_records as read_records,
    test_queries as test_queries,
    train as train,
    trainings as trainings,
)

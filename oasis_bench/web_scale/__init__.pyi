from .training import (
    Checkpoint as Checkpoint,
    Training as Training,
    TrainingRecord as TrainingRecord,
    chance_level as chance_level,
    test_queries as test_queries,
    train as train,
    trainings as trainings,
)

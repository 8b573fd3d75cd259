"""What a learner and a data set are; finding them, testing them, saving what they learned."""

"""What is asked of a fitted learner, and its measures; the one home of ranking."""

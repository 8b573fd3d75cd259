"""Base classes of learners and data sets; finding plugins, testing learners, saving models."""

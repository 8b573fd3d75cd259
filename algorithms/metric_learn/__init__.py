"""The learners of the package metric-learn under this interface."""

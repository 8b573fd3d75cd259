"""One trial: choose on inner folds, fit on the clock, evaluate off the clock."""

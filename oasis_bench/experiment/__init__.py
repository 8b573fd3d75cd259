"""From an experiment file to a list of trials: settings, splits, seeds, identity, budget."""

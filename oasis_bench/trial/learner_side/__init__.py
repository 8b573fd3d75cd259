"""Runs beside the plugin, in the processes of a trial: tune, fit, score; has no test label."""

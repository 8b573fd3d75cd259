"""The SQLite file of a run: the only room that knows SQL."""

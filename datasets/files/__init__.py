"""Files of data sets: downloads, archives, arrays on disk."""

"""Learners whose steps keep a matrix positive by the LogDet divergence: LEGO and ITML."""

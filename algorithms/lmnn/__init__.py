"""LMNN, large margin nearest neighbours, and its fast variant."""

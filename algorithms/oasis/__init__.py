"""The OASIS family: online learning of x'Wy from triplets."""

"""Triplet samplers: who is the query, the positive and the negative of each step."""

from oasis_bench.sampling.class_triplets import ClassTripletSampler
from oasis_bench.sampling.relevance_triplets import RelevanceTripletSampler

__all__ = ["ClassTripletSampler", "RelevanceTripletSampler"]

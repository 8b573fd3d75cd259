from .triplets import (
    ClassTripletSampler as ClassTripletSampler,
    RelevanceTripletSampler as RelevanceTripletSampler,
    seed_state as seed_state,
)

from .class_triplets import ClassTripletSampler as ClassTripletSampler
from .class_triplets import seed_state as seed_state
from .relevance_triplets import RelevanceTripletSampler as RelevanceTripletSampler

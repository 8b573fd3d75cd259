from .claim import Claim as Claim, decide as decide, measured_effects as measured_effects
from .paper_figures import (
    ClassList as ClassList,
    on_papers_classes as on_papers_classes,
    published as published,
    published_figures as published_figures,
)
from .papers import CLAIMS as CLAIMS, experiments as experiments

from .claim import (
    CHANGES as CHANGES,
    CLAIMS as CLAIMS,
    Claim as Claim,
    decide as decide,
    decided_by as decided_by,
    experiments as experiments,
    measured_effects as measured_effects,
    needs_quiet_cores as needs_quiet_cores,
)
from .paper_figures import (
    ClassList as ClassList,
    Runs as Runs,
    published as published,
    published_figures as published_figures,
)

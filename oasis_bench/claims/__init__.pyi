from .claim import (
    Claim as Claim,
    decide as decide,
    measured_effects as measured_effects,
)
from .paper_figures import (
    PAPERS_PER_CLASS as PAPERS_PER_CLASS,
    Runs as Runs,
    class_sentences as class_sentences,
    list_of as list_of,
    on_papers_classes as on_papers_classes,
    paper_items as paper_items,
    published_figures as published_figures,
    published_judgements as published_judgements,
    published_minutes as published_minutes,
    published_precision as published_precision,
    published_web_scale as published_web_scale,
)
from .papers import CLAIMS as CLAIMS, TABLE4 as TABLE4, experiments as experiments

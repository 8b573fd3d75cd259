from .challenges import CHALLENGES as CHALLENGES
from .claim import (
    LEAST as LEAST,
    Finding as Finding,
    Outcome as Outcome,
    Runs as Runs,
    Verdict as Verdict,
    decide as decide,
    worth_repeating as worth_repeating,
)
from .class_lists import (
    PAPERS_PER_CLASS as PAPERS_PER_CLASS,
    class_sentences as class_sentences,
    list_of as list_of,
    on_papers_classes as on_papers_classes,
)
from .oasis_papers import TABLE4 as TABLE4
from .paper_figures import (
    published_figures as published_figures,
    published_judgements as published_judgements,
    published_minutes as published_minutes,
    published_precision as published_precision,
    published_web_scale as published_web_scale,
)
from .papers import CLAIMS as CLAIMS, experiments as experiments
from .tables_and_figures import ITEMS as ITEMS

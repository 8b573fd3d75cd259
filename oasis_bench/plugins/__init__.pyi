from .blending import (
    Blend as Blend,
    baseline_scores as baseline_scores,
    is_the_baseline as is_the_baseline,
    mixed_affinities as mixed_affinities,
    sd_of_baseline as sd_of_baseline,
    sd_of_learned as sd_of_learned,
    sds_of_affinity as sds_of_affinity,
)
from .check import check_plugins as check_plugins
from .contract import (
    LearnerContract as LearnerContract,
    TestRegisteredLearners as TestRegisteredLearners,
    digit_items as digit_items,
    digit_rows as digit_rows,
)
from .dataset import (
    Dataset as Dataset,
    DescribedColumn as DescribedColumn,
    Description as Description,
    Fields as Fields,
)
from .index import remembered as remembered
from .learner import (
    BilinearLearner as BilinearLearner,
    EmbeddingLearner as EmbeddingLearner,
    ExemplarLearner as ExemplarLearner,
    InnerProducts as InnerProducts,
    LinearMap as LinearMap,
    MahalanobisLearner as MahalanobisLearner,
    as_inner_product as as_inner_product,
    baseline_rows as baseline_rows,
    blocks as blocks,
    form_of as form_of,
    learner_of as learner_of,
)
from .metric_learner import (
    TIES_SEED as TIES_SEED,
    FittedArray as FittedArray,
    IncrementalLearner as IncrementalLearner,
    MetricLearner as MetricLearner,
    ranked_labels as ranked_labels,
)
from .model_file import (
    Model as Model,
    add_about as add_about,
    complete_model as complete_model,
    load_blend as load_blend,
    load_model as load_model,
    load_model_of as load_model_of,
    read_model as read_model,
    save_model as save_model,
    training_rows_of as training_rows_of,
    write_model as write_model,
)
from .names import (
    BASELINE as BASELINE,
    PATH_DATASETS as PATH_DATASETS,
    find_dataset as find_dataset,
    installed as installed,
)
from .posterior import (
    TAUS as TAUS,
    NoScaleError as NoScaleError,
    Posterior as Posterior,
    refusal_of_votes as refusal_of_votes,
    without_votes as without_votes,
)
from .registry import (
    BrokenPluginError as BrokenPluginError,
    Catalogue as Catalogue,
    Registry as Registry,
    load_reports as load_reports,
    place_in_plugin as place_in_plugin,
)
from .use import (
    embed as embed,
    neighbours as neighbours,
    ranking_of as ranking_of,
)

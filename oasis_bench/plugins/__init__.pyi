from .approximate import ApproximateGallery as ApproximateGallery
from .check import Outcome as Outcome, check_plugins as check_plugins
from .contract import (
    LearnerContract as LearnerContract,
    TestRegisteredLearners as TestRegisteredLearners,
)
from .contract_items import digit_items as digit_items, digit_rows as digit_rows
from .dataset import Dataset as Dataset
from .inputs import refuse_unlike_inputs as refuse_unlike_inputs
from .learner import (
    BilinearLearner as BilinearLearner,
    EmbeddingLearner as EmbeddingLearner,
    ExemplarLearner as ExemplarLearner,
    FittedArray as FittedArray,
    IncrementalLearner as IncrementalLearner,
    MahalanobisLearner as MahalanobisLearner,
    MetricLearner as MetricLearner,
    blocks as blocks,
)
from .metric_learner import checked_scores as checked_scores
from .model_archive import add_training_rows as add_training_rows
from .model_file import (
    load_model as load_model,
    load_model_of as load_model_of,
    read_model as read_model,
    save_model as save_model,
    training_rows_of as training_rows_of,
    write_model as write_model,
)
from .names import (
    PATH_DATASETS as PATH_DATASETS,
    find_dataset as find_dataset,
    installed as installed,
    refuse_unknown as refuse_unknown,
)
from .opening import (
    load_rows as load_rows,
    needed_options as needed_options,
    open_dataset as open_dataset,
    read_options as read_options,
)
from .registry import (
    BrokenPluginError as BrokenPluginError,
    Catalogue as Catalogue,
    Registry as Registry,
    load_registry as load_registry,
    load_reports as load_reports,
    place_in_plugin as place_in_plugin,
    plugin_files_of as plugin_files_of,
)
from .scorers import (
    knn_accuracy as knn_accuracy,
    map_at_r as map_at_r,
    mean_average_precision as mean_average_precision,
    measures as measures,
    ndcg as ndcg,
    precision_at_k as precision_at_k,
    r_precision as r_precision,
    recall_at_k as recall_at_k,
    similarity_of as similarity_of,
)

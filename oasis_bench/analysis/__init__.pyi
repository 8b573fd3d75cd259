from .comparison import Line as Line, RunComparison as RunComparison, compare_runs as compare_runs
from .leaderboard import (
    LEAST_CORPORA as LEAST_CORPORA,
    MOST_STAND_INS as MOST_STAND_INS,
    Leaderboard as Leaderboard,
    compare_over_corpora as compare_over_corpora,
    recommendations as recommendations,
)
from .measurements import (
    COSTS as COSTS,
    group_means as group_means,
    headlines as headlines,
    measure_name as measure_name,
    measures_of as measures_of,
    option_name as option_name,
    shown_in_text as shown_in_text,
    task_measures as task_measures,
    used_by_compare as used_by_compare,
    with_costs as with_costs,
)
from .statistics import (
    LEAST_CLUSTERS as LEAST_CLUSTERS,
    LEAST_POINTS as LEAST_POINTS,
    LEAST_SETS as LEAST_SETS,
    LEVEL as LEVEL,
    BestLearners as BestLearners,
    PairedInterval as PairedInterval,
    PowerLaw as PowerLaw,
    cluster_interval as cluster_interval,
    compare_to_best as compare_to_best,
    detectable_difference as detectable_difference,
    fit_power_law as fit_power_law,
    holm as holm,
    paired_interval as paired_interval,
    reach_of as reach_of,
    seen_difference as seen_difference,
)

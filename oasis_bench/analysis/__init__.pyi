from .comparison import compare_runs as compare_runs
from .leaderboard import (
    BASELINES as BASELINES,
    Leaderboard as Leaderboard,
    best_elsewhere as best_elsewhere,
    bootstrap_intervals as bootstrap_intervals,
    chosen_elsewhere as chosen_elsewhere,
    domains_of as domains_of,
    p_values_against as p_values_against,
    rule_gains as rule_gains,
    tests_over_corpora as tests_over_corpora,
)
from .measurements import (
    RunAnalysis as RunAnalysis,
    measure_name as measure_name,
)
from .statistics import (
    LEAST_SETS as LEAST_SETS,
    LEVEL as LEVEL,
    MARGIN as MARGIN,
    Comparison as Comparison,
    PairedInterval as PairedInterval,
    compare_to_best as compare_to_best,
    detectable_difference as detectable_difference,
    holm as holm,
    reach_of as reach_of,
)

from .claims_page import write_claims as write_claims
from .export import (
    export_run as export_run,
    read_summary as read_summary,
    result_rows as result_rows,
)
from .glance import write_glance as write_glance
from .leaderboard import (
    SUITE as SUITE,
    recommend as recommend,
    write_ranks as write_ranks,
    write_side_by_side as write_side_by_side,
)
from .ratings import collect_ratings as collect_ratings, write_rating_page as write_rating_page
from .report import write_report as write_report
from .table import for_spreadsheets as for_spreadsheets
from .terminal import (
    answer_text as answer_text,
    comparison_text as comparison_text,
    summary_html as summary_html,
    summary_text as summary_text,
)
from .web_scale import write_web_scale_report as write_web_scale_report

"""Make metric-learn 0.7.0 work on scikit-learn 1.8 and newer: one argument has a new name.

To be deleted when a metric-learn is out that passes `ensure_all_finite` itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import metric_learn._util as _util


def _translate(check: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(check)
    def translated(*args: Any, **options: Any) -> Any:
        if "force_all_finite" in options:
            options["ensure_all_finite"] = options.pop("force_all_finite")
        return check(*args, **options)

    return translated


# scikit-learn 1.6 renamed force_all_finite to ensure_all_finite and 1.8 dropped the old name.
# Only metric-learn's own view of these functions is changed, never scikit-learn itself.
_util.check_array = _translate(_util.check_array)
_util.check_X_y = _translate(_util.check_X_y)

"""Classes whose annotated fields are what their constructor takes: learners, and data sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import get_annotations
from typing import Any, dataclass_transform


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Fields:
    """Makes the fields of a class the parameters of its `__init__`, in their order.

    A class without a field of its own keeps the `__init__` that a base has, also a written one.
    """

    def __init_subclass__(cls, kw_only: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if any("ClassVar" not in str(hint) for hint in get_annotations(cls).values()):
            dataclass(eq=False, repr=False, kw_only=kw_only)(cls)

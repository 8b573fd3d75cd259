"""What makes the annotated fields of a learner its hyper-parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, dataclass_transform, get_args, get_origin

from sklearn.utils._param_validation import StrOptions


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class HyperParameters:
    """Makes the fields of a learner its hyper-parameters, which `__init__` takes in their order.

    scikit-learn checks them by their types: ``Annotated[int, Interval(...)]`` bounds a number.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, kw_only: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        made: Any = dataclass(eq=False, repr=False, kw_only=kw_only)(cls)
        known = cls._parameter_constraints
        if isinstance(known, dict):  # else a property
            hints = inspect.get_annotations(cls, eval_str=True)
            own = {f.name: _constraints(hints[f.name]) for f in fields(made) if f.name in hints}
            cls._parameter_constraints = known | {k: v for k, v in own.items() if any(v)}


def _constraints(hint: Any) -> list[Any]:
    """Return what scikit-learn may take for a hyper-parameter of this type; [None] says nothing."""
    found = list(getattr(hint, "__metadata__", ()))
    plain = hint.__origin__ if found else hint
    for kind in [plain] if get_origin(plain) is Literal else get_args(plain) or [plain]:
        if get_origin(kind) is Literal:
            found.append(StrOptions(set(get_args(kind))))
        elif kind is bool:
            found.append("boolean")
        elif kind is str:
            found.append(str)
        elif kind is type(None) and "random_state" not in found:
            found.append(None)
    return found

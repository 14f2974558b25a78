"""Weights of resources in plugin arguments: a list of names, and one argument per name for its weight.

Callers: plugins whose arguments have the form of Volcano's binpack, `<key>: a, b` and `<key>.<name>: 3`; the lists
alone are also read by `resource_strategies`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Weight = Annotated[int, Meta(ge=0, le=1_000_000)]


def take_weights(given: dict[str, Any], key: str) -> dict[str, int]:  # Any: values as YAML gave them
    """Take the list and the weights out of `given`; a resource without a weight has 1.

    A weight for a resource that is not listed has no effect, as in Volcano. Raises ValueError that names the argument.
    """
    prefix = f"{key}."
    listed = listed_names(key, given.pop(key, ""))
    weights = {name[len(prefix) :]: given.pop(name) for name in sorted(given) if name.startswith(prefix)}
    checked = {resource: _weight(f"{prefix}{resource}", weight) for resource, weight in weights.items()}
    return {resource: checked.get(resource, 1) for resource in listed}


def listed_names(key: str, given: object) -> list[str]:
    """Read names separated by commas; each counts once. Raises ValueError that names the argument."""
    if not isinstance(given, str):
        # A ValueError like every other wrong argument: the registry names plugin and file.
        raise ValueError(  # noqa: TRY004
            f'{key}: expected names separated by commas, such as "nvidia.com/gpu", got {given!r}'
        )
    names = (name.strip() for name in given.split(","))
    return list(dict.fromkeys(name for name in names if name))


def _weight(argument: str, given: object) -> int:
    try:
        return msgspec.convert(given, Weight, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"{argument}: expected a whole number from 0 to 1000000, got {given!r}") from None

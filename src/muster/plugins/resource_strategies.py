"""How resource-strategy-fit is told what to do: its arguments, and what a pod's annotations say otherwise.

A *strategy* of a resource is a type and a weight. It is given by the name of the resource, or for many at once by the
beginning of the name (`nvidia.com/*`): the name itself goes before beginnings, the longest of these goes first.
Callers: the plugin, and the runner of the recorded cases.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta

from muster.api import Pod, names
from muster.framework.plugin import Arguments
from muster.plugins.resource_weights import Weight, listed_names

_log = logging.getLogger(__name__)

StrategyType = Literal["LeastAllocated", "MostAllocated"]
TYPES: Final[tuple[str, ...]] = get_args(StrategyType)

#: How much of a second resource goes with one device.
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is better for one resource, and how much it counts."""

    type: StrategyType = "LeastAllocated"
    weight: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


Strategies = Mapping[str, Strategy]
DEFAULT: Final[Strategies] = {"cpu": Strategy(), "memory": Strategy()}


class Avoidance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Scarce resources: pods keep off the nodes that have them."""

    enable: bool = False
    resources: str = ""
    weight: Weight = 1
    resource_weight: dict[str, Weight] = {}

    def weights(self) -> dict[str, int]:
        """The weight of every scarce resource; none when this is not enabled."""
        listed = listed_names("sra.resources", self.resources) if self.enable else ()
        return {name: self.resource_weight.get(name, 1) for name in listed}


class Proportions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """CPU and memory that stay free for every free device."""

    enable: bool = False
    resources: str = ""
    resource_proportion: dict[str, Rate] = {}

    def rates(self) -> dict[str, tuple[float, float]]:
        """Cores and gigabytes (10^9 bytes) for one device of every kind; none when this is not enabled."""
        listed = listed_names("proportional.resources", self.resources) if self.enable else ()
        given = self.resource_proportion
        return {name: (given.get(f"{name}.cpu", 1.0), given.get(f"{name}.memory", 1.0)) for name in listed}


class StrategyArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the plugin."""

    weight: Annotated[
        Weight, Meta(description="How much the strategies count beside other scores; 0 turns them off.")
    ] = msgspec.field(name="resourceStrategyFitWeight", default=10)
    resources: Annotated[
        dict[str, Strategy],
        Meta(
            description="`type` (LeastAllocated, the default, or MostAllocated) and `weight` (default 1) by resource; "
            "`nvidia.com/*` is every resource whose name begins so. Others do not count. Absent: CPU and memory, "
            "LeastAllocated. Pods may say otherwise in the annotations `volcano.sh/resource-strategy-scoring-type` and "
            "`volcano.sh/resource-strategy-weight`."
        ),
    ] = msgspec.field(default_factory=lambda: dict(DEFAULT))
    sra: Annotated[
        Avoidance,
        Meta(
            description="With `enable: true`, nodes without the scarce `resources` (separated by commas) are better, "
            "by their weights in `resourceWeight` (default 1) and times `weight` (default 1), if they have all that "
            "the pod asks for."
        ),
    ] = msgspec.field(default_factory=Avoidance)
    proportional: Annotated[
        Proportions,
        Meta(
            description="With `enable: true`, pods that ask for none of the `resources` leave CPU and memory for every "
            "free one of them: `<name>.cpu` cores and `<name>.memory` gigabytes of `resourceProportion` (default 1)."
        ),
    ] = msgspec.field(default_factory=Proportions)


_Section = TypeVar("_Section", bound=msgspec.Struct)


def read_strategies(raw: Mapping[str, Any]) -> StrategyArguments:  # Any: values as YAML gave them
    """Check the arguments. Raises ValueError that names the one that is wrong."""
    given = {name: value for name, value in raw.items() if value is not None}
    resources = _read_resources(given.pop("resources", {})) or dict(DEFAULT)
    sra = _section(Avoidance, given.pop("sra", {}), "sra")
    proportional = _section(Proportions, given.pop("proportional", {}), "proportional")
    _check_proportions(proportional)
    for place, section in (("sra", sra), ("proportional", proportional)):
        if section.enable and not listed_names(f"{place}.resources", section.resources):
            raise ValueError(f'{place}.resources: expected names separated by commas, such as "nvidia.com/gpu"')
    plain = msgspec.convert(given, StrategyArguments, strict=False)
    return msgspec.structs.replace(plain, resources=resources, sra=sra, proportional=proportional)


def _read_resources(given: object) -> dict[str, Strategy]:
    if not isinstance(given, Mapping):
        # ValueErrors like every other wrong argument: the registry names plugin and file.
        raise ValueError(f"resources: expected a mapping of resources to type and weight, got {given!r}")  # noqa: TRY004
    return {_pattern(str(name)): _strategy(value, f"resources.{name}") for name, value in given.items()}


def _pattern(name: str) -> str:
    if "*" in name and (name == "*" or name.index("*") != len(name) - 1):
        raise ValueError(f'resources.{name}: expected a name, or the beginning of names as in "nvidia.com/*"')
    return name


def _strategy(given: object, place: str) -> Strategy:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind is not None and kind not in TYPES:
        raise ValueError(f"{place}.type: expected {' or '.join(TYPES)}, got {kind!r}")
    return _section(Strategy, {} if given is None else given, place)


def _section(kind: type[_Section], given: object, place: str) -> _Section:
    """Read a mapping inside the arguments; what has no value has its default."""
    if isinstance(given, Mapping):
        given = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(known.encode_name for known in msgspec.structs.fields(kind))
        raise ValueError(f"{place}: {error}; known here: {known}") from None


def _check_proportions(section: Proportions) -> None:
    for key in section.resource_proportion:
        if not key.endswith((".cpu", ".memory")):
            raise ValueError(
                f"proportional.resourceProportion.{key}: expected the name of a resource and .cpu or .memory after it, "
                'such as "nvidia.com/gpu.cpu"'
            )


def strategy_of(resource: str, strategies: Strategies) -> Strategy | None:
    """The strategy of a resource; None: it does not count."""
    exact = strategies.get(resource)
    if exact is not None:
        return exact
    beginnings = [name for name in strategies if name.endswith("*") and resource.startswith(name[:-1])]
    return strategies[max(beginnings, key=len)] if beginnings else None


def pod_strategies(pod: Pod, configured: Strategies) -> Strategies:
    """The strategies for a pod: those of the configuration, or what its annotations put in their place.

    Weights that a pod names are all that count for it. An annotation that cannot be read leaves nothing that counts:
    what its owner wanted is not known, and it is not for the configuration to guess.
    """
    marks = pod.metadata.annotations
    kind, weights = marks.get(names.STRATEGY_TYPE), marks.get(names.STRATEGY_WEIGHT)
    if kind is None and weights is None:
        return configured
    try:
        return _overridden(configured, kind, weights)
    except ValueError as error:
        _complain(pod.key, str(error))
        return {}


@lru_cache(maxsize=1024)
def _complain(pod: str, problem: str) -> None:
    """Say it once, not in every cycle."""
    _log.warning("pod %s: annotations on resource strategies: %s", pod, problem)


def _overridden(configured: Strategies, kind: str | None, weights: str | None) -> Strategies:
    if weights is None:
        return {name: _strategy({"type": kind, "weight": known.weight}, name) for name, known in configured.items()}
    found: dict[str, Strategy] = {}
    for name, weight in msgspec.json.decode(weights, type=dict[str, int]).items():
        known = strategy_of(name, configured) or Strategy()
        if weight:
            found[name] = _strategy({"type": kind or known.type, "weight": weight}, name)
    return found

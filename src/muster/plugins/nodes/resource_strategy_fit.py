"""Resource strategies: one resource fills nodes up, another spreads over them; scarce resources are kept free.

The score is binpack's with a direction for every resource: of what a pod asks for, the used or the free fraction of
the node with the pod on it, weighted. A *strategy* is a type and a weight. It is given by the name of the resource, or
for many at once by the beginning of the name (`nvidia.com/*`): the name itself goes before beginnings, the longest of
these goes first; a pod's annotations may say otherwise. `sra` prefers nodes that lack scarce resources, by the nodes'
size alone, so it is fixed for a class. `proportional` follows what is free at the moment: pods that ask for no device
are looked at one by one, and only while it is enabled.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast, get_args

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.api import Pod, names
from muster.api.errors import describe_value
from muster.api.resources import to_base, unit_of
from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.framework.reasons import FITS, Verdicts, reason
from muster.framework.registry import Weight, in_words, listed_names
from muster.kernels.placement import BINPACK, MAX_NODE_SCORE
from muster.snapshot import Amounts, Mask, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session


_log = logging.getLogger(__name__)

KEPT_FOR_DEVICES = reason(
    "kept-for-devices",
    "keep their free CPU and memory for pods that use their devices",
    remedy="wait for room on other nodes, or lower resourceProportion of the plugin resource-strategy-fit",
)
_GIGA: Final = 1e9

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
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: expected a mapping, got {describe_value(given)}")  # noqa: TRY004  # as listed_names
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        # What is said of arguments begins with the name of one, or says that there is none of that name.
        said = in_words(f"{error}", given, kind)
        raise ValueError(f"{place}{': ' if said.startswith('there is no') else '.'}{said}") from None


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


class ResourceStrategyFit(Plugin):
    """Score every resource by a strategy of its own."""

    name = "resource-strategy-fit"
    summary = "Packs some resources and spreads others, keeps off scarce ones, and leaves CPU and memory for devices."
    Args = StrategyArguments

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        return read_strategies(raw)

    def open(self, session: Session) -> None:
        super().open(session)
        self._snapshot = session.snapshot
        self._given = cast("StrategyArguments", self.arguments)
        self._configured = self._columns(self._given.resources)
        self._rates = self._given.proportional.rates()
        index = session.snapshot.axis.index
        #: Columns of the devices that pods ask for.
        self._asked = [index[name] for name in self._rates if name in index]

    # -- scores ----------------------------------------------------------------------------------------------

    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(self._avoidance(cls), self._terms(cls))

    def _terms(self, cls: int) -> list[list[float]]:
        if self._given.weight == 0:
            return []
        strategies = pod_strategies(self._snapshot.classes.pods[cls], self._given.resources)
        is_usual = strategies is self._given.resources
        columns = self._configured if is_usual else self._columns(strategies)
        return [[float(BINPACK), float(self._given.weight), *columns]]

    def _columns(self, strategies: Strategies) -> list[float]:
        """Weights in column order; below zero where free nodes are better."""
        found = (strategy_of(name, strategies) for name in self._snapshot.axis.names)
        signs = {"MostAllocated": 1.0, "LeastAllocated": -1.0}
        return [0.0 if known is None else signs[known.type] * known.weight for known in found]

    def _avoidance(self, cls: int) -> NDArray[np.float64] | None:
        """Points for what a node lacks of scarce resources, if it has all that the class asks for."""
        if self._lacking is None:
            return None
        has = self._snapshot.nodes.allocatable() > 0
        suits = np.all(has[:, self._snapshot.classes.requests[cls, 0] > 0], axis=1)
        points: NDArray[np.float64] = np.where(suits, self._lacking, 0.0) * (MAX_NODE_SCORE * self._given.sra.weight)
        return points

    @cached_property
    def _lacking(self) -> NDArray[np.float64] | None:
        """By node, the part of the weights of scarce resources that it does not have; None: nothing is scarce."""
        weights = self._given.sra.weights()
        total = sum(weights.values())
        if not total or not self._given.sra.weight:
            return None
        had = np.zeros(len(self._snapshot.nodes))
        for name, weight in weights.items():
            had += weight * (self._offered[name] > 0)
        lacking: NDArray[np.float64] = 1.0 - had / total
        return lacking

    # -- what stays free for devices -------------------------------------------------------------------------

    def live_tasks(self) -> Rows:
        pending = self._snapshot.pending_tasks()
        if not any(self._offered[name].any() for name in self._rates):
            return pending[:0]
        asks: Mask = np.any(self._snapshot.classes.requests[:, 0, self._asked] > 0, axis=1)
        rows: Rows = pending[~asks[self._snapshot.tasks.cls[pending]]]
        return rows

    def task_mask(self, task: int) -> Verdicts | None:
        request = self._snapshot.request(task)
        if not self._rates or (request[self._asked] > 0).any():
            return None
        nodes = self._snapshot.nodes
        # What was promised is as good as taken, and what others have yet to leave is not free.
        free: Amounts = np.minimum(nodes.idle(), nodes.future_idle())
        return np.where(self._too_little_left(free, request), KEPT_FOR_DEVICES.number, FITS).astype(np.int16)

    def _too_little_left(self, free: Amounts, request: Amounts) -> Mask:
        index = self._snapshot.axis.index
        left_cpu = free[:, index["cpu"]] - request[index["cpu"]]
        left_memory = free[:, index["memory"]] - request[index["memory"]]
        short: Mask = np.zeros(len(free), np.bool_)
        for name, (cores, gigabytes) in self._rates.items():
            # A device that no pod asks for is free wherever there is one.
            amounts = free[:, index[name]] if name in index else self._offered[name]
            devices = amounts / (1000.0 if unit_of(name) == "milli" else 1.0)
            lacks = (left_cpu < devices * cores * 1000) | (left_memory < devices * gigabytes * _GIGA)
            short |= (devices > 0) & lacks
        return short

    @cached_property
    def _offered(self) -> dict[str, Amounts]:
        """What nodes have of scarce resources and devices, those among them that no pod asks for included."""
        nodes, index = self._snapshot.nodes, self._snapshot.axis.index
        found: dict[str, Amounts] = {}
        for name in {**self._given.sra.weights(), **self._rates}:
            if name in index:
                found[name] = nodes.allocatable()[:, index[name]]
            else:
                found[name] = np.array(
                    [
                        0 if aside or (amount := node.status.allocatable.get(name)) is None else to_base(name, amount)
                        for node, aside in zip(nodes.objects, nodes.aside.tolist(), strict=True)
                    ],
                    np.int64,
                )
        return found

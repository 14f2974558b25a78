"""The scheduler configuration: Volcano's file, read as users have it.

    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: gang
        enablePreemptable: false
        arguments: {...}
    configurations:
    - name: allocate
      arguments: {...}
    grouping:
    - kind: MyJob.example.com

Absent flags are on (except `enableHierarchy`). Names of plugins and actions, and their arguments, are checked
against the registry when a session is made, not here: reading needs no plugin to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.api import UserError
from muster.api.documents import read_yaml
from muster.framework.config_files import hint, the_configuration, unwrapped
from muster.framework.plugin import Eviction
from muster.framework.points import EVICTION_FLAGS, HIERARCHY_FLAG, OTHER_FLAGS, POINTS, Point

#: One and the same, so that who has checked it once need not do so again.
_NO_ARGUMENTS: Final[Mapping[str, Any]] = {}
KNOWN_FLAGS = frozenset(
    {HIERARCHY_FLAG, *OTHER_FLAGS, *EVICTION_FLAGS.values(), *(point.flag for point in POINTS if point.flag)}
)


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier: which extension points are on, and its arguments as given."""

    name: str
    flags: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: What an absent flag means; True in configuration files.
    absent: bool = True

    def is_on(self, point: Point[..., Any, Any]) -> bool:
        """Is the extension point enabled?"""
        return self.flags.get(point.flag, self.absent) if point.flag else True

    def has_opinion(self, kind: Eviction) -> bool:
        """Does the plugin's opinion on single victims count?"""
        flag = EVICTION_FLAGS.get(kind)
        return True if flag is None else self.flags.get(flag, self.absent)

    @property
    def hierarchy(self) -> bool:
        return self.flags.get(HIERARCHY_FLAG, False)


@dataclass(frozen=True, slots=True)
class Sharding:
    """Nodes of this scheduler's shard: the only ones it may use (hard), or those it prefers (soft)."""

    mode: str
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Which actions run, in order, and which plugins advise them, tier by tier."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sharding: Sharding | None = None
    #: What has no meaning here of a configuration that was written for others.
    notes: tuple[str, ...] = ()
    #: Rows that say which pods belong together, as written: controllers read them, scheduling does not. None: no row.
    grouping: object = None

    def plugin_options(self) -> list[PluginOption]:
        return [option for tier in self.tiers for option in tier]

    def arguments_of(self, action: str) -> Mapping[str, Any]:
        return self.configurations.get(action, _NO_ARGUMENTS)


#: The profile `muster`.
DEFAULT_YAML = """\
# The best of both: fair shares down a tree of queues, gangs kept whole when others make room, guaranteed runtimes.
actions: "allocate, backfill, consolidation, gangreclaim, gangpreempt, stalegangeviction"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: minruntime
  - name: lostwork
- plugins:
  - name: fairshare
  - name: predicates
  - name: nodeorder
    # What pods prefer comes first; then nodes are filled up, which leaves whole ones for those who need them.
    arguments: {leastrequested.weight: 0, balancedresource.weight: 0}
  - name: resourcetype
  - name: nodeplacement
  - name: network-topology-aware
  - name: propose
  - name: pdb
"""


#: The profile `kai`.
KAI_YAML = """\
# What KAI's users run: a tree of queues with fair shares, victims found by trying scenarios, nodes filled up.
actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
tiers:
- plugins:
  - name: predicates
  - name: fairshare
    arguments:
      # Victims that find another node cost their queue nothing, as in KAI.
      chargeMovedVictims: false
  - name: priority
  - name: elastic
  - name: gang
    # The plugin elastic orders jobs by how much of their minimum they have.
    enableJobOrder: false
  - name: taskorder
  - name: nodeplacement
    arguments: {gpu: binpack, cpu: binpack}
  - name: resourcetype
  - name: nodeorder
    # Of Kubernetes' scores that for preferred pod affinity alone, above all others, as KAI's plugin podaffinity.
    arguments:
      podaffinity.weight: 1000
      podaffinity.hardWeight: 1
      leastrequested.weight: 0
      balancedresource.weight: 0
      nodeaffinity.weight: 0
      tainttoleration.weight: 0
      podtopologyspread.weight: 0
  - name: minruntime
  - name: pdb
configurations:
- name: consolidation
  arguments: {trim: false, takeBackBinds: true, growthBreaksGangs: true}
- name: reclaim
  arguments: {strategy: solver, trim: false, passOverProtected: false, takeBackBinds: true, growthBreaksGangs: true}
- name: preempt
  arguments: {strategy: solver, trim: false, passOverProtected: false, takeBackBinds: true, growthBreaksGangs: true}
"""


def default_config() -> SchedulerConfig:
    """The configuration that holds when the user gives none."""
    return parse_config(DEFAULT_YAML, "default configuration")


def load_config(path: Path) -> SchedulerConfig:
    """Read a configuration file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot read the configuration: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot read the configuration: it is not text in UTF-8") from error
    return parse_config(text, str(path))


def parse_config(text: str, source: str) -> SchedulerConfig:
    """Parse a configuration; `source` names it in errors."""
    reader = _Reader(source)
    documents = the_configuration([document.content for document in read_yaml(text, source)])
    if len(documents) > 1:
        raise UserError(f"{source}: expected one document, got {len(documents)}")
    content, notes = unwrapped(documents[0] if documents else None, source, KAI_YAML)
    known = ("actions", "tiers", "configurations", "metrics", "grouping")
    document = reader.mapping(content, "the file", known)
    return SchedulerConfig(
        actions=reader.actions(document.get("actions")),
        tiers=tuple(reader.tiers(document.get("tiers"))),
        configurations=reader.configurations(document.get("configurations"), document.get("tiers")),
        notes=notes,
        grouping=document.get("grouping"),
    )


class _Reader:
    """Checks the shape of the document; every error names file, path and what is expected."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, path: str, expected: str, got: object) -> UserError:
        return UserError(f"{self.source}: {path}: expected {expected}, got {_shown(got)}")

    def mapping(self, value: object, path: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(path, "a mapping", value)
        if known is not None:
            for key in value:
                if key not in known:
                    raise UserError(f"{self.source}: {path}: unknown field {key!r}; {hint(str(key), known)}")
        return value

    def sequence(self, value: object, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(path, "a list", value)
        return value

    def name(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.fail(path, "a name", value)
        return value

    def actions(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, str):
            raise self.fail("actions", 'names separated by commas, such as "enqueue, allocate"', value)
        names = tuple(name for name in (part.strip() for part in value.split(",")) if name)
        if not names:
            raise self.fail("actions", "at least one action", value)
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{self.source}: actions: {name!r} is listed twice; name each action once")
        return names

    def tiers(self, value: object) -> list[tuple[PluginOption, ...]]:
        tiers = []
        seen: dict[str, str] = {}
        for i, tier in enumerate(self.sequence(value, "tiers")):
            path = f"tiers[{i}]"
            plugins = self.mapping(tier, path, ("plugins", "arguments")).get("plugins")
            options = []
            for k, entry in enumerate(self.sequence(plugins, f"{path}.plugins")):
                place = f"{path}.plugins[{k}]"
                option = self.plugin(entry, place)
                if option.name in seen:
                    raise UserError(
                        f"{self.source}: {place}: plugin {option.name!r} is already at {seen[option.name]}; "
                        "list it once"
                    )
                seen[option.name] = place
                options.append(option)
            tiers.append(tuple(options))
        return tiers

    def plugin(self, entry: object, path: str) -> PluginOption:
        fields = self.mapping(entry, path)
        flags = {}
        for key, value in fields.items():
            if key in ("name", "arguments"):
                continue
            if key not in KNOWN_FLAGS:
                known = ("name", "arguments", *sorted(KNOWN_FLAGS))
                raise UserError(f"{self.source}: {path}.{key}: unknown field; {hint(str(key), known)}")
            if not isinstance(value, bool):
                raise self.fail(f"{path}.{key}", "true or false", value)
            flags[key] = value
        arguments = fields.get("arguments")
        arguments = {} if arguments is None else self.mapping(arguments, f"{path}.arguments")
        return PluginOption(self.name(fields.get("name"), f"{path}.name"), flags, arguments)

    def configurations(self, value: object, tiers: object) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = self.arguments_in_tiers(tiers)
        for i, entry in enumerate(self.sequence(value if value is not None else [], "configurations")):
            path = f"configurations[{i}]"
            fields = self.mapping(entry, path, ("name", "arguments"))
            name = self.name(fields.get("name"), f"{path}.name")
            arguments = fields.get("arguments")
            arguments = {} if arguments is None else self.mapping(arguments, f"{path}.arguments")
            found[name] = {**found.get(name, {}), **arguments}
        return found

    def arguments_in_tiers(self, tiers: object) -> dict[str, Mapping[str, Any]]:
        """Arguments of actions that stand beside the plugins of a tier, as `preempt.gangAwareEnable: true`."""
        found: dict[str, dict[str, Any]] = {}
        for i, tier in enumerate(self.sequence(tiers, "tiers")):
            path = f"tiers[{i}].arguments"
            given = tier.get("arguments")
            for key, value in ({} if given is None else self.mapping(given, path)).items():
                action, dot, argument = str(key).partition(".")
                if not dot:
                    raise self.fail(f"{path}.{key}", "the name of an action and of its argument, with a dot", key)
                found.setdefault(action, {})[argument] = value
        return dict(found)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."

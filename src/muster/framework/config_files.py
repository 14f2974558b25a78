"""Scheduler configurations as users have them: wrapped in a ConfigMap or in Helm values, or written for KAI.

Enters: one document of a file. Leaves: the plain document that `config` reads, and notes on what has no meaning here.
KAI's shards and scheduler configurations become the profile `kai` with what they change: a plugin that is part of
something else here, or a setting that nothing follows from, is a note and no error. What nobody knows is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from muster.api import UserError, parse_seconds
from muster.api.documents import read_yaml
from muster.api.fields import nearest

Document = dict[str, Any]  # Any: YAML as it was read
#: Where the text of a configuration stands in Helm values: Volcano's chart, and ours.
_IN_VALUES: Final = (("custom", "scheduler_config_override"), ("config",))
_CONFIG_KEYS: Final = ("volcano-scheduler.conf", "scheduler.yaml", "config.yaml")
_KAI_GROUP: Final = "kai.scheduler/"
_HOLDING: Final = ("SchedulingShard", "ConfigMap")
#: Plugins of KAI's, and why there is none of that name here.
_WITHIN: Final = {
    "nodeavailability": "nodes that are not ready are never used",
    "kubeflow": "masters of jobs come first by their index",
    "ray": "heads of clusters come first by their index",
    "subgrouporder": "sub-groups are ordered as part of placing",
    "nominatednode": "promised nodes are kept as part of placing",
    "dynamicresources": "device claims are not allocated here",
    "topology": "topology levels are part of placing",
    "snapshot": "`muster snapshot save` stores what the scheduler sees",
    "gpupack": "GPUs are given out whole, so there is nothing to pack on one",
    "gpuspread": "GPUs are given out whole, so there is nothing to spread on them",
    "gpusharingorder": "GPUs are given out whole",
    "reflectjoborder": "`muster jobs` lists the line",
    "numa": "NUMA nodes within a machine are left to the kubelet",
    "nodelocalgreedy": "it is one of the ways in which KAI looks for victims; the solver has its own",
    "multinodegang": "it is one of the ways in which KAI looks for victims; the solver has its own",
}
_PLUGINS: Final = {"proportion": "fairshare", "podaffinity": "nodeorder"}
_ACTIONS: Final = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
_KAI_FIELDS: Final = ("queueDepthPerAction", "usageDBConfig")
#: Fields of shards that nothing follows from here, and why.
_IDLE: Final = {
    "goMemLimit": "it is about the memory of KAI's own program",
    "goMemLimitRatio": "it is about the memory of KAI's own program",
    "scenarioSearchBudgets": "searches end after so many dry runs: `maxTrialsPerJob` and `maxTrialsPerCycle`",
}
_SHARD_FIELDS: Final = (
    "actions",
    "args",
    "kValue",
    "minRuntime",
    "partitionLabelValue",
    "placementStrategy",
    "plugins",
    "queueDepthPerAction",
    "usageDBConfig",
    *_IDLE,
)
#: How long KAI looks back at what queues had where a configuration does not say.
_USAGE_WINDOW: Final = "1w"


def hint(name: str, known: Collection[str], otherwise: str = "") -> str:
    """The name that was probably meant; where none is near, what else there is to say, or all that are known."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else otherwise or f"known: {', '.join(sorted(known))}"


def the_configuration(documents: list[object]) -> list[object]:
    """Of several documents the one that holds a configuration, if there is one: users apply what is beside it."""
    holding: list[object] = [each for each in documents if isinstance(each, dict) and each.get("kind") in _HOLDING]
    return holding if len(documents) > 1 and len(holding) == 1 else documents


def unwrapped(document: object, source: str, kai: str) -> tuple[object, tuple[str, ...]]:
    """The plain configuration of a document, and notes; `kai`: the text of the profile for KAI. Raises UserError."""
    if not isinstance(document, dict):
        return document, ()
    if document.get("kind") == "ConfigMap":
        return unwrapped(_in_config_map(document, source), source, kai)
    if document.get("kind") == "SchedulingShard" or str(document.get("apiVersion", "")).startswith(_KAI_GROUP):
        return _of_shard(document, source, kai)
    if "actions" not in document and (text := _in_values(document)) is not None:
        if not text.strip():
            raise UserError(f"{source}: config is empty: the chart uses its default then; leave out --config")
        return unwrapped(_parsed(text, source), source, kai)
    return _of_kai(document, source, kai) if _is_for_kai(document) else (document, ())


def _in_config_map(document: Document, source: str) -> object:
    data = document.get("data")
    data = data if isinstance(data, dict) else {}
    named = [key for key in _CONFIG_KEYS if key in data] or [key for key in data if key.endswith((".conf", ".yaml"))]
    if not named:
        keys = ", ".join(sorted(map(str, data))) or "nothing"
        raise UserError(f"{source}: data: expected a configuration under {_CONFIG_KEYS[0]}, got {keys}")
    if len(named) > 1 and named[0] not in _CONFIG_KEYS:
        raise UserError(f"{source}: data: expected one configuration, got {', '.join(named)}")
    return _parsed(str(data[named[0]]), f"{source}: data[{named[0]}]")


def _in_values(document: Document) -> str | None:
    """The text of a configuration in Helm values; None: they are none."""
    for path in _IN_VALUES:
        value: object = document
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    return None


def _parsed(text: str, source: str) -> object:
    documents = [document.content for document in read_yaml(text, source)]
    if len(documents) != 1:
        raise UserError(f"{source}: expected one document, got {len(documents)}")
    (content,) = documents
    # Values may hold the file with its name, as ConfigMaps do.
    if isinstance(content, dict) and list(content) == [_CONFIG_KEYS[0]]:
        return _parsed(str(content[_CONFIG_KEYS[0]]), source)
    return content


# -- KAI -------------------------------------------------------------------------------------------------------------


class _Kai:
    """The profile for KAI while it is being changed."""

    def __init__(self, text: str, source: str) -> None:
        parsed = _parsed(text, "profile:kai")
        assert isinstance(parsed, dict)
        self.document: Document = parsed
        self.source = source
        self.notes: list[str] = []

    @property
    def plugins(self) -> list[Document]:
        plugins: list[Document] = self.document["tiers"][0]["plugins"]
        return plugins

    def note(self, text: str) -> None:
        self.notes.append(f"{self.source}: {text}")

    def find(self, name: str) -> Document:
        return next(plugin for plugin in self.plugins if plugin["name"] == name)

    def set_plugin(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.find(name).setdefault("arguments", {}).update(arguments)

    def set_action(self, name: str, arguments: Mapping[str, Any]) -> None:
        entries: list[Document] = self.document["configurations"]
        known = next((entry for entry in entries if entry["name"] == name), None)
        if known is None:
            entries.append({"name": name, "arguments": dict(arguments)})
        else:
            known["arguments"].update(arguments)

    def use_actions(self, names: list[str]) -> None:
        self.document["actions"] = ", ".join(names)
        entries = self.document["configurations"]
        self.document["configurations"] = [entry for entry in entries if entry["name"] in names]

    def drop(self, name: str) -> None:
        self.plugins[:] = [plugin for plugin in self.plugins if plugin["name"] != name]

    def our_name(self, name: str, path: str) -> str | None:
        """What a plugin of KAI's is called here; None: there is none, and a note says why. Raises UserError."""
        if name in _WITHIN:
            self.note(f"{path}: plugin {name} has no meaning here: {_WITHIN[name]}")
            return None
        ours = _PLUGINS.get(name, name)
        known = [plugin["name"] for plugin in self.plugins]
        if ours not in known:
            all_known = [*known, *_PLUGINS, *_WITHIN]
            raise UserError(f"{self.source}: {path}: unknown plugin {name!r}; {hint(name, all_known)}")
        return ours

    def result(self) -> tuple[Document, tuple[str, ...]]:
        return self.document, tuple(dict.fromkeys(self.notes))


def _is_for_kai(document: Document) -> bool:
    if any(name in document for name in _KAI_FIELDS):
        return True
    return any(name in _WITHIN for name, _ in _named_plugins(document))


def _named_plugins(document: Document) -> Iterator[tuple[str, Document]]:
    for tier in document.get("tiers") or ():
        for plugin in (tier.get("plugins") or ()) if isinstance(tier, dict) else ():
            if isinstance(plugin, dict):
                yield str(plugin.get("name")), plugin


def _of_kai(document: Document, source: str, text: str) -> tuple[object, tuple[str, ...]]:
    """KAI's scheduler configuration: actions in their order, plugins with their arguments."""
    kai = _Kai(text, source)
    if isinstance(document.get("actions"), str):
        kai.use_actions([part.strip() for part in document["actions"].split(",") if part.strip()])
    named = list(_named_plugins(document))
    ours = {known: plugin for name, plugin in named if (known := kai.our_name(name, "tiers")) is not None}
    for name, plugin in ours.items():
        kai.set_plugin(name, plugin.get("arguments") or {})
    kept = {*ours, "gang", "pdb"}  # KAI has no plugins for what these do: it always does it
    for name in [plugin["name"] for plugin in kai.plugins if plugin["name"] not in kept]:
        kai.drop(name)
    _depths(kai, document.get("queueDepthPerAction"))
    _usage(kai, document.get("usageDBConfig"), "usageDBConfig")
    return kai.result()


def _of_shard(document: Document, source: str, text: str) -> tuple[object, tuple[str, ...]]:
    """A SchedulingShard: what it changes of KAI's defaults."""
    spec = document.get("spec") or {}
    if document.get("kind") != "SchedulingShard" or not isinstance(spec, dict):
        raise UserError(f"{source}: expected a SchedulingShard with a spec, got {document.get('kind')}")
    kai = _Kai(text, source)
    for name in spec:
        if name not in _SHARD_FIELDS:
            raise UserError(f"{source}: spec.{name}: unknown field; {hint(str(name), _SHARD_FIELDS)}")
    placement = spec.get("placementStrategy") or {}
    kai.set_plugin("nodeplacement", placement)
    actions = _enabled(spec.get("actions") or {}, kai)
    if "spread" in placement.values() and "consolidation" in actions:
        actions.remove("consolidation")
        kai.note("spec.placementStrategy: consolidation is left out, as in KAI, where pods are spread")
    kai.use_actions(actions)
    runtimes = spec.get("minRuntime") or {}
    for kind in ("Preempt", "Reclaim"):
        if (seconds := runtimes.get(f"{kind.lower()}MinRuntime")) is not None:
            kai.set_plugin("minruntime", {f"default{kind}MinRuntime": seconds})
    if "kValue" in spec:
        kai.set_plugin("fairshare", {"kValue": spec["kValue"]})
    _depths(kai, spec.get("queueDepthPerAction"))
    _plugins(kai, spec.get("plugins") or {})
    if spec.get("partitionLabelValue"):
        kai.note(f"spec.partitionLabelValue: say --node-pool {spec['partitionLabelValue']} to work on that pool only")
    _flags(kai, spec.get("args") or {})
    _usage(kai, spec.get("usageDBConfig"), "spec.usageDBConfig")
    for name in filter(spec.__contains__, _IDLE):
        kai.note(f"spec.{name} has no meaning here: {_IDLE[name]}")
    return kai.result()


def _flags(kai: _Kai, given: Mapping[str, Any]) -> None:
    """Flags of KAI's scheduler: a few say what arguments of actions and plugins say here."""
    for name, value in given.items():
        match name:
            case "default-staleness-grace-period":
                kai.set_action("stalegangeviction", {"gracePeriod": value})
            case "max-consolidation-preemptees":
                kai.set_action("consolidation", {"maxConsolidationPreemptees": value})
            case "allow-consolidating-reclaim":
                kai.set_plugin("fairshare", {"chargeMovedVictims": str(value).lower() == "false"})
            case _:
                kai.note(
                    f"spec.args.{name} has no meaning here: it is a flag of KAI's scheduler; see `muster run --help`"
                )


def _usage(kai: _Kai, given: object, path: str) -> None:
    """Shares that depend on the past: how far back KAI looks. Raises UserError."""
    if not isinstance(given, dict):
        return
    params = given.get("usageParams") or {}
    spans = {
        "windowSeconds": params.get("windowSize") or _USAGE_WINDOW,
        "halfLifeSeconds": params.get("halfLifePeriod") or 0,
    }
    kai.set_plugin("fairshare", {name: _span(kai, path, span) for name, span in spans.items()})
    if params.get("windowType", "sliding") != "sliding":
        kai.note(f"{path}.usageParams.windowType: the window is the last {spans['windowSeconds']} at any moment")
    kai.note(f"{path}: the scheduler records by itself what queues have; nothing is read from a database")


def _span(kai: _Kai, path: str, given: str | float) -> float:
    try:
        return parse_seconds(given)
    except ValueError as fault:
        raise UserError(f"{kai.source}: {path}.usageParams: {fault}") from None


def _enabled(given: Mapping[str, Any], kai: _Kai) -> list[str]:
    """Actions that are on, those of a higher priority first; without one KAI's order holds."""
    order = {name: 100 * (len(_ACTIONS) - place) for place, name in enumerate(_ACTIONS)}
    for name, change in given.items():
        if name not in order:
            raise UserError(f"{kai.source}: spec.actions: unknown action {name!r}; {hint(name, _ACTIONS)}")
        if change.get("enabled") is False:
            del order[name]
        elif "priority" in change:
            order[name] = change["priority"]
    return sorted(order, key=lambda name: -order[name])


def _plugins(kai: _Kai, given: Mapping[str, Any]) -> None:
    for name, change in given.items():
        ours = kai.our_name(name, "spec.plugins")
        if ours is None:
            continue
        if change.get("enabled") is False:
            kai.drop(ours)
        elif "arguments" in change:
            kai.set_plugin(ours, change["arguments"])
        if "priority" in change:
            kai.note(f"spec.plugins.{name}.priority has no meaning here: plugins keep the order of the profile kai")


def _depths(kai: _Kai, given: object) -> None:
    """How many jobs of a queue are tried: an argument of the actions that evict."""
    for name, depth in given.items() if isinstance(given, dict) else ():
        if name in ("consolidation", "reclaim", "preempt"):
            kai.set_action(name, {"maxJobsPerQueue": depth})
        else:
            kai.note(f"queueDepthPerAction.{name} has no meaning here: every job in line is tried")

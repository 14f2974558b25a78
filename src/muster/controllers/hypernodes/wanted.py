"""A HyperNode as a source wants it, and what has to be asked for so that it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.api import HyperNode, encode
from muster.controllers.contract import Action, Create, Delete, Json, Patch, target_of

#: The label that says where a HyperNode comes from.
SOURCE: Final = "volcano.sh/network-topology-source"


@dataclass(frozen=True, slots=True)
class WantedHyperNode:
    """A domain of the network; members are nodes in the lowest tier, HyperNodes in all others."""

    name: str
    tier: int
    members: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    tier_name: str = ""

    def document(self) -> Json:
        """The HyperNode as it is made."""
        kind = {"apiVersion": HyperNode.api_version, "kind": HyperNode.kind}
        return {**kind, "metadata": {"name": self.name, "labels": dict(self.labels)}, "spec": self.spec()}

    def spec(self) -> Json:
        """What it should say."""
        kind = "Node" if self.tier == 1 else "HyperNode"
        members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in self.members]
        named = {"tierName": self.tier_name} if self.tier_name else {}
        return {"tier": self.tier, **named, "members": members}


def steps_to(wanted: Iterable[WantedHyperNode], standing: Mapping[str, HyperNode]) -> list[Action]:
    """What to ask for: HyperNodes are made and changed from the inside out, and go from the outside in."""
    listed = sorted(wanted, key=lambda each: (each.tier, each.name))
    actions: list[Action] = []
    for each in listed:
        known = standing.get(each.name)
        if known is None:
            actions.append(Create(each.document()))
        elif changes := _changes(each, known):
            actions.append(Patch(target_of(known), changes))
    names = {each.name for each in listed}
    gone = [known for known in standing.values() if known.name not in names]
    gone.sort(key=lambda known: (-known.spec.tier, known.name))
    return [*actions, *(Delete(target_of(known)) for known in gone)]


def _changes(wanted: WantedHyperNode, known: HyperNode) -> Json:
    stands = encode(known).get("spec") or {}
    assert isinstance(stands, dict)
    spec = {**dict.fromkeys(stands), **wanted.spec()}
    changes: Json = {}
    if changed := {name: value for name, value in spec.items() if value != stands.get(name)}:
        changes["spec"] = changed
    labels = {key: value for key, value in wanted.labels.items() if known.metadata.labels.get(key) != value}
    if labels:
        changes["metadata"] = {"labels": labels}
    return changes

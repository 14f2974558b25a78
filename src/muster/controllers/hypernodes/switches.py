"""HyperNodes from what a manager of switches answers.

UFM answers with the ports of a fabric. Ports of computers name the leaf switch that they are connected to; leaf
switches that share a computer (one for each of its rails) are one HyperNode, and what connects all of them is another.

Any other manager may answer with its switches as a tree, each with the nodes or the switches below it:

    {"switches": [{"name": "spine-1", "tierName": "spine", "switches": [{"name": "leaf-1", "nodes": ["n1", "n2"]}]}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from muster.api import UserError
from muster.controllers.hypernodes.discovery import UFM
from muster.controllers.hypernodes.wanted import SOURCE, WantedHyperNode

_COMPUTER: Final = "Computer"
_DEEPEST: Final = 32


class _Port(msgspec.Struct):
    description: str = ""
    system_name: str = ""
    peer_node_name: str = ""


class _Switch(msgspec.Struct):
    name: str
    tier_name: str = msgspec.field(default="", name="tierName")
    nodes: list[str] = []
    switches: list[_Switch] = []


class _Tree(msgspec.Struct):
    switches: list[_Switch]


_PORTS: Final = msgspec.json.Decoder(list[_Port])
_TREE: Final = msgspec.json.Decoder(_Tree)


def from_answer(source: str, answer: bytes) -> list[WantedHyperNode]:
    """What there should be. Raises UserError for an answer that says nothing of a network."""
    try:
        found = from_ports(_PORTS.decode(answer)) if source == UFM else from_tree(_TREE.decode(answer).switches)
    except (msgspec.DecodeError, RecursionError) as fault:
        wanted = "a list of ports" if source == UFM else "an object with switches"
        raise UserError(f"expected {wanted}: {fault}") from None
    if not found:
        raise UserError("expected switches with nodes, got none; HyperNodes stay as they are")
    return found


def from_ports(ports: Iterable[_Port]) -> list[WantedHyperNode]:
    """Groups of leaf switches that share computers, numbered by the names of switches, and all of them together."""
    nodes_of: dict[str, set[str]] = {}
    for port in ports:
        if _COMPUTER in port.description and port.peer_node_name and port.system_name:
            nodes_of.setdefault(port.peer_node_name, set()).add(port.system_name)
    labels = {SOURCE: UFM}
    leaves = [
        WantedHyperNode(f"leaf-hn-{number}", 1, tuple(sorted(nodes)), labels)
        for number, nodes in enumerate(_connected(nodes_of))
    ]
    if not leaves:
        return []
    return [*leaves, WantedHyperNode("spine-hn", 2, tuple(sorted(leaf.name for leaf in leaves)), labels)]


def _connected(nodes_of: Mapping[str, set[str]]) -> list[set[str]]:
    """Nodes that hang together by their switches, in the order of the first switch of each group."""
    groups: list[set[str]] = []
    for switch in sorted(nodes_of):
        touched = [group for group in groups if group & nodes_of[switch]]
        if not touched:
            groups.append(set(nodes_of[switch]))
            continue
        touched[0].update(nodes_of[switch], *touched[1:])
        groups = [group for group in groups if not any(group is other for other in touched[1:])]
    return groups


def from_tree(switches: Sequence[_Switch]) -> list[WantedHyperNode]:
    """A HyperNode for each switch, in a tier above all that is below it. Raises UserError."""
    found: dict[str, WantedHyperNode] = {}
    for switch in switches:
        _add(switch, found, 1)
    return list(found.values())


def _add(switch: _Switch, found: dict[str, WantedHyperNode], depth: int) -> int:
    """Add a switch and all below it; return its tier, 0 for one without anything below it."""
    if depth > _DEEPEST:
        raise UserError(f"expected at most {_DEEPEST} switches above each other")
    if switch.nodes and switch.switches:
        raise UserError(f'expected nodes or switches below "{switch.name}", got both')
    tiers = {below.name: _add(below, found, depth + 1) for below in switch.switches}
    members = switch.nodes or [name for name, tier in tiers.items() if tier]
    if not members:
        return 0
    if switch.name in found:
        raise UserError(f'expected each switch once, got "{switch.name}" twice')
    tier = 1 + max(tiers.values(), default=0)
    found[switch.name] = WantedHyperNode(
        switch.name, tier, tuple(sorted(set(members))), {SOURCE: "http"}, switch.tier_name
    )
    return tier

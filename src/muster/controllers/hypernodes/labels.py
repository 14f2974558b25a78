"""HyperNodes from node labels, one tier for each label; the narrowest holds nodes, each wider one the tier below.

A label and its value are one HyperNode. A node without a label is in nothing from that tier on. HyperNodes that stand
already keep their names, whoever gave them; new ones are named after what they stand for, so that two controllers
would name them alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api import HyperNode, Node
from muster.controllers.hypernodes.discovery import LABEL
from muster.controllers.hypernodes.wanted import SOURCE, WantedHyperNode

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")
_N_SUFFIX: Final = 5

#: The network, the tier from 1 on, and the value of its label.
_Domain = tuple[str, int, str]


@dataclass(slots=True)
class _Members:
    key: str
    names: set[str] = field(default_factory=set)


def from_labels(
    nodes: Iterable[Node], networks: Mapping[str, Sequence[str]], standing: Iterable[HyperNode]
) -> list[WantedHyperNode]:
    """What there should be, from the lowest tier up."""
    names = _Names(standing, networks)
    domains: dict[_Domain, _Members] = {}
    for node in nodes:
        for network, keys in networks.items():
            member = node.name
            for tier, key in enumerate(keys, start=1):
                value = node.metadata.labels.get(key)
                if not value:
                    break
                domains.setdefault((network, tier, value), _Members(key)).names.add(member)
                member = names.of(network, tier, value)
    wanted = []
    for (network, tier, value), members in sorted(domains.items(), key=lambda item: (item[0][1], item[0])):
        labels = {SOURCE: LABEL, members.key: value}
        name = names.of(network, tier, value)
        wanted.append(WantedHyperNode(name, tier, tuple(sorted(members.names)), labels, members.key))
    return wanted


class _Names:
    """The name of each domain: that of the HyperNode that stands for it, or a new one."""

    def __init__(self, standing: Iterable[HyperNode], networks: Mapping[str, Sequence[str]]) -> None:
        self._networks = networks
        self._standing = sorted(standing, key=lambda known: known.name)
        self._known: dict[_Domain, str] = {}

    def of(self, network: str, tier: int, value: str) -> str:
        domain = network, tier, value
        if domain not in self._known:
            self._known[domain] = self._find(*domain)
        return self._known[domain]

    def _find(self, network: str, tier: int, value: str) -> str:
        key = self._networks[network][tier - 1]
        prefix = f"hypernode-{_NOT_IN_NAMES.sub('-', network.lower())}-tier{tier}-"
        for known in self._standing:
            if known.name.startswith(prefix) and known.metadata.labels.get(key) == value:
                return known.name
        return prefix + hashlib.sha256(f"{network}/{key}/{value}".encode()).hexdigest()[:_N_SUFFIX]

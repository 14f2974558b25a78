"""The tree as the JSON document of `muster topology show --output json`; nothing is folded."""

from __future__ import annotations

from typing import Any

from muster.api import format_amount
from muster.topology.view import DomainView, NodeView, TopologyView

#: What each field means; the reference page is made from it.
FIELDS = (
    ("`resource`", "what is counted: the scarce resource of the cluster, or that of `--resource`"),
    ("`tiers[]`", "`tier`, `names` and number of `domains` of each, the highest tier first"),
    ("`root`", "the domain that holds the whole cluster"),
    ("`root.name`, `.tier`, `.tierName`", "of the HyperNode; `tierName` is empty where it has none"),
    ("`root.nodeCount`, `.free`, `.total`", "nodes inside, and the resource on them, as quantities"),
    ("`root.faults[]`", "what is wrong with the HyperNode"),
    ("`root.domains[]`", "domains inside, with the same fields"),
    ("`root.nodes[]`", "nodes that are in no smaller domain: `name`, `free`, `total`, `note`"),
)


def view_document(view: TopologyView) -> dict[str, Any]:  # Any: a JSON document
    """Return the document."""
    return {
        "resource": view.resource,
        "tiers": [{"tier": tier, "names": list(names), "domains": n} for tier, names, n in view.tiers],
        "root": _domain(view.resource, view.root),
    }


def _domain(resource: str, domain: DomainView) -> dict[str, Any]:  # Any: a JSON document
    return {
        "name": domain.name,
        "tier": domain.tier,
        "tierName": domain.tier_name,
        "nodeCount": domain.n_nodes,
        "free": format_amount(resource, domain.free),
        "total": format_amount(resource, domain.total),
        "faults": list(domain.faults),
        "domains": [_domain(resource, inner) for inner in domain.domains],
        "nodes": [_node(resource, node) for node in domain.nodes],
    }


def _node(resource: str, node: NodeView) -> dict[str, str]:
    return {
        "name": node.name,
        "free": format_amount(resource, node.free),
        "total": format_amount(resource, node.total),
        "note": node.note,
    }

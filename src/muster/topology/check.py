"""Everything that is wrong with a topology, and with the PodGroups that rely on it.

Errors keep jobs waiting: faults of the tree, objects that an API server would refuse, constraints that no domain can
meet. Warnings are probably mistakes. Notes are worth knowing. Called by `muster topology check`; findings are
in the order of their level, then of the objects' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from muster.api import HyperNode, KubeObject, Loaded, PodGroup, problems
from muster.snapshot.hypernodes import HyperNodeForest, build_forest, natural
from muster.topology.needs import Needs
from muster.topology.view import Objects

Level = Literal["error", "warning", "note"]
_ORDER = ("error", "warning", "note")
_MAX_NAMES = 5

#: Codes of findings and what they mean; the reference page is made from it.
CODES: Mapping[str, tuple[Level, str]] = {
    "invalid": ("error", "a field has a value that is surely wrong, such as a regular expression that Go cannot read"),
    "fault": ("error", "a HyperNode cannot be believed, so it is out of use: jobs that need it wait"),
    "tier-unknown": ("error", "a constraint names a tier that no HyperNode has"),
    "tier-missing": ("error", "a hard constraint without a tier"),
    "too-large": ("error", "a constraint that no domain could meet even if the cluster were empty"),
    "no-such-node": ("warning", "an exactMatch for a node that does not exist"),
    "empty": ("warning", "a HyperNode without any node"),
    "outside": ("note", "nodes that are in no HyperNode: only jobs that may span the whole cluster use them"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at."""

    code: str
    #: Kind and name of the object; "" for what concerns no single object.
    subject: str
    text: str
    #: File and document, where it is known.
    place: str = ""

    @property
    def level(self) -> Level:
        return CODES[self.code][0]

    def to_json(self) -> dict[str, str]:
        return {
            "level": self.level,
            "code": self.code,
            "subject": self.subject,
            "text": self.text,
            "place": self.place,
        }


def check_topology(things: Iterable[KubeObject | Loaded]) -> list[Finding]:
    """Return what there is to say, errors first; objects may be ones that do not pass validation."""
    places: dict[str, str] = {}
    objects: list[KubeObject] = []
    for thing in things:
        found = thing.object if isinstance(thing, Loaded) else thing
        objects.append(found)
        if isinstance(thing, Loaded):
            places[_subject(found)] = f"{thing.source.file}:{thing.source.line}"
    findings = [
        Finding(finding.code, finding.subject, finding.text, places.get(finding.subject, ""))
        for finding in _findings(objects)
    ]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.level), natural(finding.subject)))


def _subject(thing: KubeObject) -> str:
    return f"{thing.kind} {thing.key}"


def _findings(objects: list[KubeObject]) -> Iterator[Finding]:
    invalid: set[str] = set()
    for thing in objects:
        for problem in problems(thing):
            invalid.add(_subject(thing))
            yield Finding("invalid", _subject(thing), f"{problem.field}: {problem.text}")
    # HyperNodes are looked at whatever is wrong with them; of the rest, amounts must be readable.
    usable = (thing for thing in objects if isinstance(thing, HyperNode) or _subject(thing) not in invalid)
    known = Objects.of(usable)
    forest = build_forest(known.hyper_nodes, known.nodes)
    yield from _faults(forest, invalid)
    yield from _members(known, forest)
    yield from _outside(known, forest)
    needs = Needs(known, forest)
    for thing in objects:
        if isinstance(thing, PodGroup) and _subject(thing) not in invalid:
            for code, text in needs.findings(thing):
                yield Finding(code, _subject(thing), text)


def _faults(forest: HyperNodeForest, invalid: set[str]) -> Iterator[Finding]:
    for name, text in forest.all_faults:
        subject = f"HyperNode {name}"
        # A pattern that cannot be read is a fault of the tree, too; once is enough.
        if subject not in invalid or not text.startswith("expected"):
            yield Finding("fault", subject, text)


def _members(known: Objects, forest: HyperNodeForest) -> Iterator[Finding]:
    for name in sorted(known.hyper_nodes, key=natural):
        missing = _missing_nodes(known.hyper_nodes[name], known)
        if missing:
            yield Finding("no-such-node", f"HyperNode {name}", f"there is no node {_some(missing)}")
        if not forest.nodes[name]:
            yield Finding("empty", f"HyperNode {name}", "holds no node")


def _missing_nodes(hyper_node: HyperNode, known: Objects) -> list[str]:
    exact = [member.selector.exact_match for member in hyper_node.spec.members if member.type == "Node"]
    return [match.name for match in exact if match is not None and match.name and match.name not in known.nodes]


def _outside(known: Objects, forest: HyperNodeForest) -> Iterator[Finding]:
    inside = {node for nodes in forest.nodes.values() for node in nodes}
    outside = sorted(set(known.nodes) - inside, key=natural)
    if outside and known.hyper_nodes:
        count = "1 node is" if len(outside) == 1 else f"{len(outside)} nodes are"
        yield Finding("outside", "", f"{count} in no HyperNode: {_some(outside)}")


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")

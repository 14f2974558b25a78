"""What holds between the amounts of queues above and below each other.

A queue may not have more than the nearest queue above that names the resource. What children are guaranteed, and what
they deserve, is theirs together with their siblings out of what the parent has; a parent that names nothing has nothing
to give. Top queues share the cluster, which has no fixed amount. A capability of 0 counts as none, as in Volcano.
A queue whose own amounts cannot be counted is put aside by the scheduler, and has no say here either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.admission.request import Known
from muster.api import Problem, Queue, format_amount, to_base_all
from muster.api.errors import Problems
from muster.api.names import ROOT_QUEUE
from muster.api.validate import uncountable

Amounts = Mapping[str, int]


def amount_field(name: str, resource: str) -> str:
    """Where the amount of a resource stands in a queue."""
    return f'spec.{name}["{resource}"]' if "." in resource or "/" in resource else f"spec.{name}.{resource}"


def amounts_in_tree(queue: Queue, known: Known) -> Problems:
    """Find what does not fit between a queue, those above and those below."""
    standing = {name: each for name, each in known.queues().items() if next(uncountable(each), None) is None}
    parent = standing.get(queue.spec.parent)
    if parent is not None and parent.name != ROOT_QUEUE:
        yield from _below_ancestors(queue, standing)
        siblings = [each for each in _children(parent.name, standing) if each.name != queue.name]
        yield from _shares(parent, [*siblings, queue])
    children = [each for each in _children(queue.name, standing) if each.name != queue.name]
    if children:
        yield from _above_descendants(queue, children, standing)
        yield from _shares(queue, children)


def _children(name: str, standing: Mapping[str, Queue]) -> list[Queue]:
    return [each for _, each in sorted(standing.items()) if each.spec.parent == name]


def _capability(queue: Queue) -> Amounts:
    return {name: amount for name, amount in to_base_all(queue.spec.capability).items() if amount}


def _below_ancestors(queue: Queue, standing: Mapping[str, Queue]) -> Problems:
    for resource, amount in sorted(_capability(queue).items()):
        nearest = _nearest_above(queue, resource, standing)
        if nearest is not None and amount > nearest[1]:
            most, got = format_amount(resource, nearest[1]), format_amount(resource, amount)
            text = f'expected at most {most}, the capability of queue "{nearest[0]}" above, got {got}'
            yield Problem(amount_field("capability", resource), text, known_as="exceeds its ancestor's capability")


def _nearest_above(queue: Queue, resource: str, standing: Mapping[str, Queue]) -> tuple[str, int] | None:
    passed = {queue.name}
    above = standing.get(queue.spec.parent)
    while above is not None and above.name not in passed and above.name != ROOT_QUEUE:
        amount = _capability(above).get(resource)
        if amount is not None:
            return above.name, amount
        passed.add(above.name)
        above = standing.get(above.spec.parent)
    return None


def _above_descendants(queue: Queue, children: Iterable[Queue], standing: Mapping[str, Queue]) -> Problems:
    for resource, amount in sorted(_capability(queue).items()):
        most, owner = max(_largest_below(child, resource, standing, {queue.name}) for child in children)
        if amount < most:
            least, got = format_amount(resource, most), format_amount(resource, amount)
            text = f'expected at least {least}, the capability of queue "{owner}" below, got {got}'
            known_as = "is smaller than its descendants' max capability"
            yield Problem(amount_field("capability", resource), text, known_as)


def _largest_below(queue: Queue, resource: str, standing: Mapping[str, Queue], passed: set[str]) -> tuple[int, str]:
    """The largest capability in a subtree, looking no deeper than the first queue that names the resource."""
    amount = _capability(queue).get(resource)
    if amount is not None:
        return amount, queue.name
    passed = passed | {queue.name}
    below = (each for each in standing.values() if each.spec.parent == queue.name and each.name not in passed)
    return max((_largest_below(each, resource, standing, passed) for each in below), default=(0, queue.name))


def _shares(parent: Queue, children: Iterable[Queue]) -> Problems:
    """Children share what their parent is guaranteed, and what it deserves."""
    listed = list(children)
    guaranteed = (each.spec.guarantee.resource for each in listed)
    for name, have, wants in (
        ("guarantee.resource", parent.spec.guarantee.resource, guaranteed),
        ("deserved", parent.spec.deserved, (each.spec.deserved for each in listed)),
    ):
        there, total = to_base_all(have), _sum(to_base_all(each) for each in wants)
        for resource, amount in sorted(total.items()):
            most = there.get(resource, 0)
            if amount > most:
                limit, got = format_amount(resource, most), format_amount(resource, amount)
                text = f'expected at most {limit}, which is what "{parent.name}" has for all queues below it, got {got}'
                known_as = f"sum of children's {name.partition('.')[0]}"
                yield Problem(amount_field(name, resource), text, known_as)


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total

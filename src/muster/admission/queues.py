"""Volcano's queues: amounts in order, a place in the tree, no deleting of queues that others need; and who names one.

guarantee <= deserved <= capability holds inside a queue. A queue may not have more than the nearest queue above that
names the resource. What children are guaranteed, and what they deserve, is theirs together with their siblings out of
what the parent has; a parent that names nothing has nothing to give. Top queues share the cluster, which has no fixed
amount. A capability of 0 counts as none, as in Volcano. What holds between queues is asked only for changes that
could break it, so that a tree with an old mistake can still be changed elsewhere; a queue whose own amounts cannot be
counted is put aside by the scheduler, and has no say here either.

A gang, a Job or a pod may name a queue that exists, is open and, where asked for, takes jobs itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from muster.admission.request import CREATE, DELETE, Findings, Json, Known, Request, Settings, checked, read, spec_of
from muster.api import Problem, Queue, QueueSpec, format_amount, problems, to_base_all
from muster.api.errors import Problems
from muster.api.names import DEFAULT_QUEUE, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from muster.api.validate import uncountable
from muster.snapshot.records import check_family

_WEIGHT: Final = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: A queue that nobody has opened or closed yet is open.
_OPEN = ("", "Open")
Amounts = Mapping[str, int]


def validate_queue(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a queue that is made, changed or deleted."""
    if request.operation == DELETE:
        yield from _deletion(request.name, known, settings)
        return
    queue = read(request.document, Queue)
    found = [*problems(queue), *_levels(queue.spec), *_annotated_path(queue, known)]
    old = None if request.operation == CREATE else read(request.old, Queue)
    if old is None:
        found += checked(check_family, known.kai_queue(queue.name), queue)
    if not found and (old is None or old.spec.parent != queue.spec.parent):
        found = list(_place(queue, known, settings))
    yield from found
    if not found and queue.name != ROOT_QUEUE and (old is None or _bears_on_others(old.spec, queue.spec)):
        yield from amounts_in_tree(queue, known)


def _bears_on_others(old: QueueSpec, new: QueueSpec) -> bool:
    return any(getattr(old, name) != getattr(new, name) for name in ("parent", "capability", "deserved", "guarantee"))


def _levels(spec: QueueSpec) -> Problems:
    """A queue deserves at least what is held back for it, and no more than it may have."""
    for resource, least in sorted(spec.guarantee.resource.items()):
        given = spec.deserved.get(resource)
        if given is None or given.value < least.value:
            got = "nothing" if given is None else f'"{given}"'
            text = f'expected at least what is guaranteed, "{least}", got {got}'
            yield Problem(amount_field("deserved", resource), text, known_as="must be >= guarantee")
    for resource, given in sorted(spec.deserved.items()):
        most = spec.capability.get(resource)
        if most is not None and given.value > most.value:
            text = f'expected at most the capability, "{most}", got "{given}"'
            yield Problem(amount_field("deserved", resource), text, known_as="must be <= capability")


def _annotated_path(queue: Queue, known: Known) -> Problems:
    """The older way to say where a queue stands: a path of names, and a weight for each."""
    path, weights = (queue.metadata.annotations.get(key, "") for key in (HIERARCHY, HIERARCHY_WEIGHTS))
    if not path and not weights:
        return
    parts = weights.split("/")
    if len(parts) != path.count("/") + 1:
        text = f'expected as many weights as names in "{path}", got "{weights}"'
        yield Problem(f'metadata.annotations["{HIERARCHY_WEIGHTS}"]', text, known_as="must have the same length")
        return
    for part in parts:
        is_number = _WEIGHT.fullmatch(part.removeprefix("-")) is not None
        if not is_number or float(part) <= 0:
            text = f'expected numbers above 0 such as "1/2", got "{part}" in "{weights}"'
            known_as = "must be larger than 0" if is_number else "is invalid number"
            yield Problem(f'metadata.annotations["{HIERARCHY_WEIGHTS}"]', text, known_as)
            return
    yield from _above_others(queue.name, path, known)


def _above_others(name: str, path: str, known: Known) -> Problems:
    for other in sorted(known.queues()):
        below = known.queues()[other].metadata.annotations.get(HIERARCHY, "")
        if other != name and below.startswith(f"{path}/"):
            text = f'expected a path of its own, got "{path}", below which is "{below}" of queue "{other}"'
            yield Problem(f'metadata.annotations["{HIERARCHY}"]', text, known_as="in the sub path of")
            return


# -- the place in the tree -----------------------------------------------------------------------------------


def _place(queue: Queue, known: Known, settings: Settings) -> Problems:
    """The queue above exists, is above others already or holds no pods, and is not too deep down."""
    parent = queue.spec.parent
    if parent in ("", ROOT_QUEUE):
        return
    above = list(_ancestors(queue, known))
    if not above:
        text = f'expected the name of a queue, got "{parent}", which does not exist'
        yield Problem("spec.parent", text, known_as="failed to get parent queue")
    elif queue.name in (each.name for each in above):
        yield Problem("spec.parent", f'expected a queue that is not below "{queue.name}" itself, got "{parent}"')
    elif len(above) + _height(queue.name, known) > settings.max_queue_depth:
        most = settings.max_queue_depth
        text = f'expected at most {most} levels of queues, got more below "{parent}"'
        yield Problem("spec.parent", text, known_as=f"exceeds the maximum allowed depth of {most}")
    elif not known.children(parent) and (pods := known.pods_held(parent)):
        text = f'expected a queue that holds no pods of its own, got "{parent}" with {pods}'
        yield Problem("spec.parent", text, known_as=f"cannot be the parent queue because it has allocated Pods: {pods}")


def _ancestors(queue: Queue, known: Known) -> Iterator[Queue]:
    """The queues above, nearest first, without the root; ends where the tree turns back on itself."""
    passed: set[str] = set()
    name = queue.spec.parent
    while name not in ("", ROOT_QUEUE) and name not in passed:
        passed.add(name)
        found = known.queue(name)
        if not isinstance(found, Queue):
            return
        yield found
        name = found.spec.parent


def _height(name: str, known: Known) -> int:
    """Levels from the queue down, itself included."""
    below: dict[str, list[str]] = {}
    for queue in known.queues().values():
        below.setdefault(queue.spec.parent, []).append(queue.name)
    level, passed, height = [name], {name}, 0
    while level:
        height += 1
        level = [child for each in level for child in below.get(each, ()) if child not in passed]
        passed.update(level)
    return height


def _deletion(name: str, known: Known, settings: Settings) -> Problems:
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        text = f'the queue "{name}" is needed by all others and cannot be deleted'
        yield Problem("", text, known_as=f"`{name}` queue can not be deleted")
        return
    if settings.guard_busy_queues and (pods := known.pods_held(name)):
        text = f"the queue holds {pods} pods; delete them first, or let them end"
        yield Problem("", text, known_as=f"cannot be deleted because it has allocated Pods: {pods}")
    if below := known.children_now(name):
        text = f"there are queues below it, which would be lost: {', '.join(below)}; delete or move them first"
        yield Problem("", text, known_as=f"can not be deleted because it has {len(below)} child queues")


# -- amounts between queues ------------------------------------------------------------------------------------


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
        there, total = to_base_all(have), Counter[str]()
        for each in wants:
            total.update(to_base_all(each))
        for resource, amount in sorted(total.items()):
            most = there.get(resource, 0)
            if amount > most:
                limit, got = format_amount(resource, most), format_amount(resource, amount)
                text = f'expected at most {limit}, which is what "{parent.name}" has for all queues below it, got {got}'
                known_as = f"sum of children's {name.partition('.')[0]}"
                yield Problem(amount_field(name, resource), text, known_as)


# -- defaults ------------------------------------------------------------------------------------------------


def fill_queue(document: Json, request: Request, known: Known, settings: Settings) -> None:
    """Weight 1, reclaimable, and paths that begin at the root."""
    del request, known, settings
    spec = spec_of(document)
    spec["weight"] = spec.get("weight") or 1
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if path and weights and path.partition("/")[0] != ROOT_QUEUE:
        annotations[HIERARCHY], annotations[HIERARCHY_WEIGHTS] = f"{ROOT_QUEUE}/{path}", f"1/{weights}"


# -- queues that others name -----------------------------------------------------------------------------------


def queue_reference(field: str, name: str, known: Known, *, leaf: bool = False) -> Problems:
    """Find what is wrong with the name of a queue; `leaf`: queues above others will not do."""
    queue = known.queue(name)
    if queue is None:
        text = f'expected the name of a queue, got "{name}", which does not exist'
        yield Problem(field, text, "unable to find job queue" if leaf else "unable to find queue")
        return
    if not isinstance(queue, Queue):
        return
    if queue.status.state not in _OPEN:
        text = f'expected an open queue, got "{name}", which is {queue.status.state.lower()}'
        yield Problem(field, text, known_as="to queue with state `Open`")
    if leaf and name == ROOT_QUEUE:
        text = f'expected a queue below the root, got "{name}" itself'
        yield Problem(field, text, known_as="can not submit job to root queue")
    elif leaf and (below := known.children(name)):
        shown = ", ".join(f'"{child}"' for child in below[:3]) + (", ..." if len(below) > 3 else "")
        text = f'expected a queue without queues below it, got "{name}"; below it are {shown}'
        yield Problem(field, text, known_as="can only submit job to leaf queue")

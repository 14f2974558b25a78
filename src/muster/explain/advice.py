"""What could let a job start, from the numbers of its explanation.

Every remedy was counted: which jobs would have to finish, how many nodes would have to come, how small the gang would
have to be. Where the numbers give nothing, the remedy of the reason code is the advice. Whether a remedy works is for
`muster.whatif` to try.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from muster.explain.model import Explanation, JobState, Named, QueuePicture
from muster.explain.obstacles import NO_NODES, NO_SUCH_RESOURCE, TOO_SMALL, NodeView, held_by_job, used_up_shares
from muster.explain.remedies import BoundRises, JobsEnd, MinimumFalls, NodesCome, ReasonGoes, Remedy, RequestChanges
from muster.explain.words import amount_text, amounts_text, counted, joined
from muster.framework import reason_number
from muster.framework.reasons import NOT_ADMITTED, NOT_TRIED, OVER_QUOTA, QUEUE_FULL, QUEUE_OVERUSED
from muster.snapshot import Rows, Snapshot

_ABOUT_QUEUES = frozenset(known.code for known in (QUEUE_FULL, QUEUE_OVERUSED, OVER_QUOTA, NOT_ADMITTED))
#: More jobs than this would be no advice.
_MAX_JOBS = 4


def advise(explanation: Explanation, view: NodeView | None, needed: Rows) -> Explanation:
    """Return the explanation with its advice filled in; `needed` are the tasks that have to find a node."""
    remedies: list[Remedy] = []
    general = [Remedy(explanation.remedy, ReasonGoes(explanation.code))] if explanation.remedy else []
    if explanation.code in _ABOUT_QUEUES:
        remedies += [remedy for queue in explanation.queues for remedy in _raise_limits(queue, explanation)]
        remedies += general
    elif view is not None:
        remedies += _about_nodes(explanation, view, needed) or general
    elif explanation.code != NOT_TRIED.code:
        remedies += general
    return replace(explanation, remedies=tuple(remedies), advised=tuple(remedies))


def _raise_limits(queue: QueuePicture, explanation: Explanation) -> list[Remedy]:
    needed: Named = {need.resource: need.needed for need in explanation.needs}
    found = []
    for name in sorted(queue.limit):
        over = queue.allocated.get(name, 0) + needed.get(name, 0) - queue.limit[name]
        if over > 0:
            text = (
                f"raise the capability of queue {queue.name} by {amount_text(name, over)} "
                f"(now {amount_text(name, queue.limit[name])}), or wait until it holds that much less"
            )
            found.append(Remedy(text, BoundRises(name, ((queue.name, queue.limit[name] + over),))))
    return found


def _about_nodes(explanation: Explanation, view: NodeView, needed: Rows) -> list[Remedy]:
    if not view.eligible.any():
        return _acceptable_nodes(view)
    if view.nowhere:
        return _other_names(view)
    if not view.empty_slots().any():
        return [_too_large(view)]
    if len(np.unique(view.snapshot.tasks.cls[needed])) > 1:
        # Pods of several kinds compete for the same room; counts for one kind would promise too much.
        return []
    fitting = min(int(view.slots().sum()), explanation.still_needed)
    short = explanation.still_needed - fitting
    if not short:
        return []
    advice = _about_shares(explanation) or [*_finish(explanation, view), _add_nodes(view, short)]
    smaller = explanation.minimum - short
    if explanation.state is JobState.WAITING and not explanation.roles and fitting and smaller > 0:
        text = f"lower minMember from {explanation.minimum} to {smaller}: that many fit now"
        advice.append(Remedy(text, MinimumFalls(smaller)))
    return advice


def _about_shares(explanation: Explanation) -> list[Remedy]:
    """Advice for a job whose queue has its fair share: room that comes free would not be for it alone."""
    name, queues = used_up_shares(explanation)
    if not queues:
        return []
    text = f"wait until jobs of queue {queues[0].name} have finished, or other queues ask for less"
    advice = [Remedy(text, ReasonGoes(QUEUE_OVERUSED.code))]
    if explanation.state is JobState.WAITING:  # who has its minimum takes nothing from others
        more = explanation.wanted.get(name, 0)
        bounds = tuple((queue.name, queue.allocated.get(name, 0) + more) for queue in queues)
        quotas = joined(f"{queue} to {amount_text(name, amount)}" for queue, amount in bounds)
        text = f"raise the quota of queue {quotas}: what is promised can be taken back"
        advice.append(Remedy(text, BoundRises(name, bounds, is_quota=True)))
    return advice


def _finish(explanation: Explanation, view: NodeView) -> list[Remedy]:
    """Name the jobs whose end would make room for the whole gang: one that is enough, else several together."""
    rooms = {holder.job: room for holder in explanation.holders if (room := held_by_job(view, holder.job)) is not None}
    needed = explanation.still_needed
    enough = [job for job, room in rooms.items() if int(view.slots(room).sum()) >= needed]
    if enough:
        return [_wait_for(enough[:_MAX_JOBS], any_one=True)]
    together: list[str] = []
    freed = np.zeros_like(view.idle)
    for job, room in list(rooms.items())[:_MAX_JOBS]:
        together.append(job)
        freed = freed + room
        if int(view.slots(freed).sum()) >= needed:
            return [_wait_for(together, any_one=False)]
    return []


def _wait_for(jobs: list[str], *, any_one: bool) -> Remedy:
    # One after the other, somebody else who waits may take what comes free first.
    together = "" if any_one or len(jobs) == 1 else " together"
    text = f"wait for {joined(jobs, 'or' if any_one else 'and')} to finish{together}: then it fits"
    return Remedy(text, JobsEnd(tuple(jobs), any_one))


def _add_nodes(view: NodeView, short: int) -> Remedy:
    """Name the smallest number of new nodes like one that exists."""
    empty = view.empty_slots()
    best = min(np.flatnonzero(empty == empty.max()), key=lambda row: view.snapshot.nodes.names[row])
    n_nodes = -(-short // int(empty[best]))
    like = view.snapshot.nodes.names[best]
    return Remedy(add_nodes_text(view.snapshot, like, n_nodes), NodesCome(like, n_nodes))


def add_nodes_text(snapshot: Snapshot, like: str, count: int) -> str:
    """Say how many nodes to add, and what each has to have."""
    offered = snapshot.axis.amounts(snapshot.nodes.allocatable()[snapshot.nodes.index[like]])
    offered.pop("pods", None)
    return f"add {counted(count, 'node')} like {like} ({amounts_text(offered)})"


def _other_names(view: NodeView) -> list[Remedy]:
    """For each resource that no node has: the most alike of those that nodes have, else to add such nodes."""
    offered = sorted(
        {name for known in view.snapshot.nodes.objects for name in known.status.allocatable if "/" in name}
    )
    advice = []
    for name in view.nowhere:
        close = get_close_matches(name, offered, n=1)
        text = f"ask for {close[0]}, which nodes have" if close else f"add nodes that have {name}"
        trial = RequestChanges(renamed=((name, close[0]),)) if close else ReasonGoes(NO_SUCH_RESOURCE.code)
        advice.append(Remedy(text, trial))
    return advice


def _too_large(view: NodeView) -> Remedy:
    """Name the resources that no node offers in the amount asked for."""
    most = view.snapshot.nodes.allocatable()[view.eligible].max(axis=0)
    names = view.snapshot.axis.names
    over = {names[i]: int(most[i]) for i in np.flatnonzero(view.request > most)}
    if over:
        asked = {name: int(view.request[view.snapshot.axis.index[name]]) for name in over}
        text = (
            f"ask for less per pod: it wants {amounts_text(asked)}, and no node where it may run "
            f"has more than {amounts_text(over)}"
        )
        return Remedy(text, RequestChanges(at_most=tuple(over.items())))
    text = "ask for less per pod: every node where it may run is too small in one resource or another"
    return Remedy(text, ReasonGoes(TOO_SMALL.code))


def _acceptable_nodes(view: NodeView) -> list[Remedy]:
    """Give the remedies of the reasons that stand against nodes, most frequent first."""
    numbers, counts = np.unique(view.verdicts, return_counts=True)
    known = [(int(n), reason_number(int(number))) for number, n in zip(numbers, counts, strict=True)]
    ordered = sorted(known, key=lambda pair: (-pair[0], pair[1].code))
    found = [Remedy(f"{why.remedy} ({counted(n, 'node')})", ReasonGoes(why.code)) for n, why in ordered if why.remedy]
    return found or [Remedy("add a node", ReasonGoes(NO_NODES.code))]

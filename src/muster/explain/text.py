"""An explanation in words: one headline, the numbers in a few labelled lines, then what would help.

Pure: the same explanation and width give the same lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from muster.explain.model import Explanation, Forecast, JobState, Named, QueuePicture
from muster.explain.obstacles import NO_SUCH_RESOURCE, used_up_shares
from muster.explain.words import amount_text, amounts_text, counted, duration_text, joined, nodes_text
from muster.framework import reason_of
from muster.framework.reasons import INSUFFICIENT, QUEUE_FULL, QUEUE_OVERUSED

DEFAULT_WIDTH = 100
_LABEL_WIDTH = 9
_PLACEMENTS = 12
_QUEUES = 6


def headline(explanation: Explanation) -> str:
    """Return the one sentence that matters."""
    name = explanation.job
    match explanation.state:
        case JobState.RUNNING:
            nodes = sorted({placement.node for placement in explanation.placements})
            where = joined(nodes) if len(nodes) <= 4 else counted(len(nodes), "node")
            return f"{name} runs on {where}{_since(explanation)}"
        case JobState.FINISHED:
            return f"{name} has finished: {_counts(explanation.tasks)}"
        case JobState.GROWING:
            n_waiting = explanation.tasks.get("pending", 0)
            waits = f"{counted(n_waiting, 'more pod')} {'waits' if n_waiting == 1 else 'wait'}"
            running = counted(len(explanation.placements), "pod")
            return f"{name} runs with {running}; {waits}: {_why(explanation)}"
        case _:
            return f"{name} waits: {_why(explanation)}"


def waiting_reason(explanation: Explanation) -> str:
    """Return why a job waits, as code and text; empty when nothing of it waits."""
    if explanation.state not in (JobState.WAITING, JobState.GROWING):
        return ""
    return f"{explanation.code}: {_why(explanation)}"


def explanation_lines(explanation: Explanation, width: int = DEFAULT_WIDTH) -> list[str]:
    """Return the whole text, line by line."""
    lines = textwrap.wrap(headline(explanation), width, subsequent_indent="  ")
    hanging = " " * (_LABEL_WIDTH + 3)
    for label, text in _facts(explanation):
        lines += textwrap.wrap(
            f"  {label:<{_LABEL_WIDTH}} {text}", width, subsequent_indent=hanging, break_on_hyphens=False
        )
    verb = "start" if explanation.state is JobState.WAITING else "grow"
    if explanation.state in (JobState.WAITING, JobState.GROWING) and explanation.advice:
        lines.append(f"  to let it {verb}{', one of' if len(explanation.advice) > 1 else ''}")
        lines += _listed(explanation.advice, width)
    elif explanation.untried is not None and explanation.remedies:
        lines.append(
            "  nothing that was tried lets it " + ("start" if explanation.state is JobState.WAITING else "grow")
        )
    if explanation.untried:
        lines.append("  not tried")
        lines += _listed(explanation.untried, width)
    return lines


def _listed(items: Sequence[str], width: int) -> Iterator[str]:
    for item in items:
        yield from textwrap.wrap(f"    - {item}", width, subsequent_indent="      ", break_on_hyphens=False)


def _why(explanation: Explanation) -> str:
    """Put the dominant reason as what is true of the job."""
    text = explanation.text
    if explanation.code == INSUFFICIENT.code:
        lacking = explanation.still_needed - explanation.placed
        pods = f"{lacking} of {counted(explanation.still_needed, 'pod')}"
        text = f"no node has room for {pods}" if lacking else "its pods do not fit together"
    elif explanation.code == NO_SUCH_RESOURCE.code:
        text = f"no node has {joined(explanation.nowhere, 'or')}"
    elif explanation.code in explanation.node_counts:
        n_nodes, n_all = explanation.node_counts[explanation.code], explanation.n_nodes
        if n_all == 1:
            text = f"the only node {nodes_text(1, text).removeprefix('1 ')}"
        else:
            text = f"{'all' if n_nodes == n_all else f'{n_nodes} of'} {n_all} nodes {text}"
    detail = _queue_detail(explanation) or explanation.detail or _share_detail(explanation)
    return f"{text} ({detail})" if detail else text


def _queue_detail(explanation: Explanation) -> str:
    """Say which bound of which queue one more pod would break; nothing when the reason is another."""
    if explanation.code not in (QUEUE_FULL.code, QUEUE_OVERUSED.code):
        return ""
    for queue in explanation.queues:
        for word, bounds in (("may hold", queue.limit), *_entitlement(queue)):
            for name in sorted(bounds, key=lambda name: ("/" not in name, name)):
                held, more = queue.allocated.get(name, 0), explanation.wanted.get(name, 0)
                if more and held + more > bounds[name]:
                    bound = amount_text(name, bounds[name])
                    return f"{queue.name} {word} {bound} and {_asked(explanation, held, name)}"
    return ""


def _entitlement(queue: QueuePicture) -> tuple[tuple[str, Named], ...]:
    """What a queue deserves, where that is a bound: next to a fair share it is a promise, and more may be had."""
    return () if queue.fair_share else (("deserves", queue.deserved),)


def _share_detail(explanation: Explanation) -> str:
    """Say whose fair share is used up, if that is why a job that finds no room may not take any from others."""
    name, queues = used_up_shares(explanation) if explanation.code == INSUFFICIENT.code else ("", ())
    if not queues:
        return ""
    share, held = amount_text(name, queues[0].fair_share[name]), queues[0].allocated.get(name, 0)
    return f"{queues[0].name} has a fair share of {share} and {_asked(explanation, held, name)}"


def _asked(explanation: Explanation, held: int, name: str) -> str:
    who = "one more pod" if explanation.asks_for_one else "the gang"
    return f"holds {amount_text(name, held)}; {who} asks for {amount_text(name, explanation.wanted.get(name, 0))}"


def _facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield labelled facts, the most telling first."""
    yield "pods", f"{_counts(explanation.tasks)}; minimum {explanation.minimum}"
    if explanation.roles:
        yield "roles", joined(f"{role.name} {role.ready} of {role.minimum}" for role in explanation.roles)
    if explanation.task:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(explanation.selector.items()))
        where = f", on nodes with {labels}" if labels else ""
        yield "asks for", f"{amounts_text(explanation.request)}{where} ({explanation.task})"
    shown = _telling_resources(explanation)
    for need in explanation.needs if explanation.has_eligible_nodes else ():
        if need.resource in shown:
            missing = f", {amount_text(need.resource, need.missing)} missing" if need.missing else ""
            free = amount_text(need.resource, need.free)
            yield "needs", f"{amount_text(need.resource, need.needed)} in all; {free} free where it may run{missing}"
    for queue in explanation.queues:
        yield "queue", _queue(queue, shown)
    if explanation.groups:
        yield "nodes", _nodes(explanation)
    if explanation.closest:
        yield "closest", f"{explanation.closest.name} lacks {amounts_text(explanation.closest.lacks)}"
    if explanation.held_by_others:
        held = amounts_text(explanation.held_by_others)
        yield "others", f"pods of other schedulers hold {held}, which queues do not share"
    if explanation.no_evictions:
        yield "evictions", f"none: {explanation.no_evictions}"
    if explanation.shields:
        yield "protected", _protected(explanation)
    if explanation.forecast is not None:
        yield "start", _forecast(explanation.forecast)
    yield from _placed(explanation)


def _telling_resources(explanation: Explanation) -> frozenset[str]:
    """Resources that are short somewhere; where none is, devices, and without devices all of them."""
    short = {n.resource for n in explanation.needs if n.missing and explanation.has_eligible_nodes}
    if explanation.closest:
        short |= set(explanation.closest.lacks)
    asked = {name for name in explanation.request if name != "pods"} | {n.resource for n in explanation.needs}
    wanted = explanation.wanted
    for queue in explanation.queues:
        for bounds in (queue.limit, *(amounts for _, amounts in _entitlement(queue))):
            short |= {
                name
                for name in bounds
                if name in asked and queue.allocated.get(name, 0) + wanted.get(name, 0) > bounds[name]
            }
    devices = {name for name in asked if "/" in name}
    return frozenset((short & asked) or devices or asked)


def _placed(explanation: Explanation) -> Iterator[tuple[str, str]]:
    shown = explanation.placements[:_PLACEMENTS]
    for placement in shown:
        since = "" if placement.running_s is None else f" for {duration_text(placement.running_s)}"
        yield "on", f"{placement.node}: {placement.pod} ({placement.status.lower()}{since})"
    if len(explanation.placements) > len(shown):
        yield "", f"and {counted(len(explanation.placements) - len(shown), 'more pod')}"


def _forecast(forecast: Forecast) -> str:
    if forecast.seconds is None:
        return f"not known: {forecast.text}"
    when = f"expected in {duration_text(round(forecast.seconds))}"
    return f"{when}: {forecast.text}" if forecast.text else when


def _protected(explanation: Explanation) -> str:
    """Say who has to leave the gang alone, and for how long."""
    total = sum(explanation.tasks.get(status, 0) for status in ("allocated", "binding", "bound", "running"))
    what = "" if total <= explanation.minimum else f"its minimum of {counted(explanation.minimum, 'pod')}, "
    parts = []
    for shield in explanation.shields:
        whom = "jobs of its own queue" if shield.own_queue else f"jobs of {_queue_names(shield.queues)}"
        parts.append(f"from {whom} for {duration_text(shield.seconds)}")
    return f"{what}{joined(parts)}"


def _queue_names(names: tuple[str, ...]) -> str:
    shown = joined(names) if len(names) <= _QUEUES else f"{', '.join(names[:_QUEUES])} and {len(names) - _QUEUES} more"
    return f"queue{'' if len(names) == 1 else 's'} {shown}"


def _nodes(explanation: Explanation) -> str:
    examples: dict[str, tuple[str, ...]] = {}
    for group in explanation.groups:
        examples[group.code] = tuple(sorted((*examples.get(group.code, ()), *group.examples))[:3])
    return f"{explanation.n_nodes} in all: {nodes_by_reason(explanation, examples)}"


def nodes_by_reason(explanation: Explanation, examples: Mapping[str, tuple[str, ...]]) -> str:
    """Say how many nodes have what against a job, with the names of some: "2 lack free resources (n1, n2)"."""
    parts = []
    for code, n_nodes in explanation.node_counts.items():
        # A reason's text completes "3 nodes ..."; the one for "no objection" is a single word.
        text = "could take one" if code == "fits" else reason_of(code).text
        parts.append(f"{nodes_text(n_nodes, text)} ({named_nodes(examples[code], n_nodes)})")
    return joined(parts)


def named_nodes(names: Sequence[str], n_nodes: int) -> str:
    """Name some of so many nodes."""
    more = n_nodes - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _queue(queue: QueuePicture, resources: frozenset[str]) -> str:
    parts = []
    for name in sorted(resources & set(queue.allocated), key=lambda name: ("/" not in name, name)):
        limits = [
            f"{word} {amount_text(name, amounts[name])}"
            for word, amounts in (
                ("has a quota of", _promised(queue)),
                ("has a fair share of", queue.fair_share),
                *_entitlement(queue),
                ("may hold", queue.limit),
                ("is guaranteed", queue.guarantee),
            )
            if name in amounts
        ]
        parts.append(", ".join([f"holds {amount_text(name, queue.allocated[name])}", *limits]))
    return f"{queue.name} (weight {queue.weight}) {'; '.join(parts)}".rstrip()


def _promised(queue: QueuePicture) -> Named:
    """Quotas next to a fair share; most queues have none."""
    return {name: amount for name, amount in queue.deserved.items() if amount} if queue.fair_share else {}


def _counts(tasks: Named) -> str:
    return ", ".join(f"{n} {status}" for status, n in tasks.items()) or "none"


def _since(explanation: Explanation) -> str:
    times = [placement.running_s for placement in explanation.placements if placement.running_s is not None]
    return f" for {duration_text(max(times))}" if times else ""

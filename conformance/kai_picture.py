"""A KAI cluster case in readable lines: the cluster, what is expected, and round by round what Muster and KAI did.

For finding out why a case disagrees: `python -m conformance DIR --only ID --show`.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.cases import Body, Case
from conformance.kai_cluster import Round, run_once, run_rounds
from conformance.kai_objects import first_states
from conformance.results import Value
from muster.framework import Registry


def picture(case: Case, registry: Registry) -> Iterator[str]:
    """Yield the lines of a case, its run included."""
    body = case.body
    yield f"case {case.id}: {body.get('name', '')}"
    yield f"tags {' '.join(sorted(case.tags))}"
    yield f"actions {', '.join(body['actions'])}"
    if body.get("config"):
        yield f"config {body['config']}"
    yield from map(_node, body["nodes"])
    for topology in body.get("topologies") or ():
        yield f"topology {topology['name']}: {' > '.join(topology['levels'])}"
    yield from _queues(body["queues"], "", "")
    yield from map(_job, sorted(body["jobs"], key=lambda job: str(job["queue"])))
    yield from _expected(body["expect"])
    seen = _observed(body)
    done = [run_once(case, registry)] if "rounds" not in body else list(run_rounds(case, registry))
    before = {name: str(place) for name, place in first_states(body).items()}
    for number, one in enumerate(done, start=1):
        theirs = seen[min(number, len(seen)) - 1] if seen and one.acted else {}
        yield from _round(number, one, theirs, before)
    yield from (f"verdict {line}" for one in done[-1:] for line in _verdicts(one))


def _node(node: Body) -> str:
    labels = "".join(f" {key}={value}" for key, value in (node.get("labels") or {}).items())
    return f"node {node['name']}: {node['gpus']} GPUs, {node['cpu']} CPUs, {node['memory'] / 1e9:g} GB{labels}"


def _queues(queues: list[Body], parent: str, indent: str) -> Iterator[str]:
    for queue in queues:
        if queue.get("parent", "") != parent:
            continue
        amounts = (f"{name} {_amounts(queue[name])}" for name in ("gpu", "cpu", "memory"))
        runtimes = (f", {key} {queue[key]}" for key in queue if key.endswith("MinRuntimeSeconds"))
        yield f"{indent}queue {queue['name']}: {', '.join(amounts)}, priority {queue['priority']}{''.join(runtimes)}"
        yield from _queues(queues, queue["name"], indent + "  ")


def _amounts(given: Body) -> str:
    """Quota, limit and weight, as in 4/-1/x2."""
    return f"{given['deserved']}/{given['limit']}/x{given['overQuotaWeight']}"


def _job(job: Body) -> str:
    tasks = " ".join(_task(task) for task in job["tasks"])
    kind = "preemptible" if job["preemptible"] else "firm"
    extra = "".join(
        f" {key}={job[key]}" for key in ("lastStartSecondsAgo", "staleSeconds", "topologyConstraint") if key in job
    )
    groups = f" groups={job['subGroups']}" if "subGroups" in job else ""
    minimum = job.get("minAvailable", "by group")
    return (
        f"job {job['name']} in {job['queue']}: priority {job['priority']} {kind}, min {minimum}, "
        f"{job['ageMinutes']} min old{extra}{groups}\n    {tasks}"
    )


def _task(task: Body) -> str:
    wants = task["resources"]
    sizes = f"{wants.get('gpu', 0)}g" + (f"{wants['cpu']}c" if wants.get("cpu", 1) != 1 else "")
    group = f" in {task['subGroup']}" if task.get("subGroup") else ""
    place = f"@{task['node']}" if task.get("node") else ""
    return f"[{task['name'].rpartition('-')[2]}: {sizes} {task['state']}{place}{group}]"


def _expected(expect: Body) -> Iterator[str]:
    for kind in ("jobs", "tasks"):
        for name, entry in (expect.get(kind) or {}).items():
            yield f"expect {name}: {entry['status']} {entry.get('node', '')} {entry.get('errorMessage', '')}".rstrip()
    for name, counts in (expect.get("jobCounts") or {}).items():
        yield f"expect {name}: {counts}"
    if "mocks" in expect:
        yield f"expect {expect['mocks']}"


def _observed(body: Body) -> list[Body]:
    """What KAI did, round by round."""
    seen: Body = body.get("observed") or {}
    if "rounds" not in seen:
        return [seen] if "tasks" in seen else []
    return [one for one in seen["rounds"] for _ in range(one.get("repeated", 1))]


def _round(number: int, one: Round, theirs: Body, before: dict[str, str]) -> Iterator[str]:
    """Tasks that moved, or are elsewhere than KAI has them."""
    yield f"round {number}: Muster {one.calls}, KAI {theirs.get('calls', {})}" if one.acted else f"look {number}"
    kai: dict[str, Value] = theirs.get("tasks") or {}
    for name, place in one.states.items():
        ours, other = str(place), kai.get(name, "")
        if other and ours != other:
            yield f"  {name}: Muster {ours}, KAI {other}  <--"
        elif ours != before[name]:
            yield f"  {name}: {before[name]} -> {ours}"
        before[name] = ours


def _verdicts(one: Round) -> Iterator[str]:
    records = one.session.snapshot.jobs.records
    for job, verdict in one.session.verdicts.items():
        yield f"{records[job].name}: {verdict.reason.code} {verdict.detail}".rstrip()

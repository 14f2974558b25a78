"""Objects that an API server would accept and that nobody wants: limits of every type, huge, deep, odd, in loops.

`hostile(rng)` makes a handful of documents that belong together. All are called "evil" or stand in the namespace of
that name; they ask for next to nothing or for more than there is, so that no rule of scheduling lets them take the
place of others. Used on the embedded cluster and on a real API server.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

Json = dict[str, Any]  # Any: a document

NAMESPACE: Final = "evil"
#: A node that good pods do not need; hostile pods may say that they run there.
CROWDED: Final = "crowded"
SCHEDULER: Final = "volcano"

_QUANTITIES: Final = (
    *("0", "1n", "1e-9", "0.0000000000001", "100Pi", "1e15", "1e17", "100P", "8Ei", "9E", "9.3E", "10E", "1e400"),
    *(str(2**53 + 1), str(2**61), str(2**63 - 1), str(2**63), str(10**30), "7.99999999999Ei", "999999999999999999m"),
)
#: Only servers of custom resources, and kubelets, let these through.
_WILD: Final = (*_QUANTITIES, "-1", "-9E", "-1n", "-0")
_INT32: Final = (0, 1, 2, 1000, 10**9, 10**9 + 1, 2**31 - 2, 2**31 - 1)
_SIGNED: Final = (*_INT32, -1, -(2**31))
_INT64: Final = (*_SIGNED, 2**40, 2**53, 2**63 - 1, -(2**63))
_TIMES: Final = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-02-28T23:59:59Z")
_LABELS: Final = ("", "9" * 63, "0" * 63, "2147483647", "9999999999", "-", "a" * 63, "1e9", "true", "1.5")
_TEXTS: Final = (*_LABELS, "x" * 20_000, "{" * 500, "\u0000", "ü\U0001f600", "-1", "1e309", "nan", "inf", "2026-99-99")
_RESOURCES: Final = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "nvidia.com/gpu",
    "example.com/evil",
    "hugepages-2Mi",
    "pods",
)
_MARKS: Final = (
    *("volcano.sh/preemptable", "scheduling.k8s.io/group-name", "volcano.sh/task-spec", "volcano.sh/task-index"),
    *("muster.sh/started", "muster.sh/stale-since", "muster.sh/staleness-grace-period", "muster.sh/run-seconds"),
    *("muster.sh/preempt-min-runtime", "muster.sh/reclaim-min-runtime", "muster.sh/exit", "volcano.sh/hierarchy"),
    *("volcano.sh/hierarchy-weights", "scheduling.volcano.sh/queue-name", "muster.sh/unreadable", "gpu-fraction"),
    *("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable", "volcano.sh/revocable-zone", "cooldown-time"),
    *("kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp", "volcano.sh/sla-waiting-time"),
)


def hostile(rng: Random) -> list[Json]:
    """Some documents that belong together, at least one of them hostile."""
    return rng.choice(_MAKERS)(rng)


def _meta(rng: Random, name: str = "evil", *, namespaced: bool = True) -> Json:
    meta: Json = {"name": name, "uid": f"evil-{rng.randrange(10**9)}"}
    if namespaced:
        meta["namespace"] = NAMESPACE
    if rng.random() < 0.2:
        meta["creationTimestamp"] = rng.choice(_TIMES)
    if rng.random() < 0.3:
        meta["labels"] = {key: rng.choice(_LABELS) for key in rng.sample(("k", "app", "volcano.sh/preemptable"), 2)}
    if rng.random() < 0.3:
        meta["annotations"] = {key: rng.choice(_TEXTS) for key in rng.sample(_MARKS, 3)}
    return meta


def _amounts(rng: Random, values: tuple[str, ...] = _QUANTITIES) -> Json:
    return {name: rng.choice(values) for name in rng.sample(_RESOURCES[:-1], rng.randint(1, 3))}


def _container(rng: Random, number: int) -> Json:
    kinds = rng.choice((("requests",), ("limits",), ("requests", "limits"), ()))
    container: Json = {"name": f"c{number}", "image": "x", "resources": {kind: _amounts(rng) for kind in kinds}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 1, "hostPort": rng.choice((1, 65535))}]
    return container


def _selector(rng: Random) -> Json:
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = [rng.choice(_LABELS)] if operator in ("In", "NotIn") else []
    return {"matchLabels": {"app": "evil"}, "matchExpressions": [{"key": "k", "operator": operator, "values": values}]}


def _pod(rng: Random, name: str = "evil", **more: Any) -> Json:  # Any: fields of the spec
    spec: Json = {
        "schedulerName": rng.choice((SCHEDULER, SCHEDULER, "other")),
        "containers": [_container(rng, number) for number in range(rng.choice((1, 1, 2, 5)))],
        **more,
    }
    if rng.random() < 0.2:
        spec["initContainers"] = [{**_container(rng, 9), "restartPolicy": "Always"}, _container(rng, 8)]
    if rng.random() < 0.2:
        spec["overhead"] = _amounts(rng)
    if rng.random() < 0.3:
        spec["nodeName"] = rng.choice((CROWDED, "missing", "e" * 253))
    if rng.random() < 0.3:
        spec["priority"] = rng.choice(_SIGNED)
    if rng.random() < 0.2:
        spec["terminationGracePeriodSeconds"] = rng.choice((0, 1, 2**63 - 1))
    if rng.random() < 0.2:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.choice((1, 2**31 - 1)),
                "minDomains": rng.choice((1, 2**31 - 1)),
                "topologyKey": rng.choice(("kubernetes.io/hostname", "nobody/has-it")),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": _selector(rng),
            }
        ]
    if rng.random() < 0.2:
        spec["affinity"] = _affinity(rng)
    if rng.random() < 0.2:
        spec["tolerations"] = [{"operator": "Exists", "tolerationSeconds": rng.choice(_INT64)}]
    phase = rng.choice(("Pending", "Pending", "Pending", "Running", "Succeeded", "Failed", "Unknown"))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(rng, name), "spec": spec, "status": {"phase": phase}}


def _affinity(rng: Random) -> Json:
    operator = rng.choice(("Gt", "Lt"))
    term = {"matchExpressions": [{"key": "k", "operator": operator, "values": [rng.choice(("0", "9" * 18, "-9"))]}]}
    pods = {
        "labelSelector": _selector(rng),
        "topologyKey": rng.choice(("kubernetes.io/hostname", "nobody/has-it")),
        "namespaces": [NAMESPACE],
    }
    weighted = [{"weight": 100, "podAffinityTerm": pods}]
    return {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pods]},
    }


def _lone_pod(rng: Random) -> list[Json]:
    return [_pod(rng)]


def _pod_group(rng: Random, **spec: Any) -> Json:  # Any: fields of the spec
    made: Json = {"minMember": rng.choice(_INT32), "queue": rng.choice(("default", "evil", "missing", "")), **spec}
    if rng.random() < 0.5:
        made["minTaskMember"] = {role: rng.choice(_INT32) for role in ("a", "b", "")[: rng.randint(1, 3)]}
    if rng.random() < 0.4:
        made["minResources"] = _amounts(rng, _WILD)
    if rng.random() < 0.3:
        made["networkTopology"] = {"mode": rng.choice(("hard", "soft")), "highestTierAllowed": rng.choice(_INT32)}
    document = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": _meta(rng), "spec": made}
    if rng.random() < 0.3:
        counts = {name: rng.choice(_INT32) for name in ("running", "succeeded", "failed")}
        document["status"] = {"phase": rng.choice(("", "Inqueue", "Running", "Odd")), **counts}
    return document


def _gang(rng: Random) -> list[Json]:
    policy = {
        "name": rng.choice(("s", "s" * 63)),
        "subGroupSize": rng.choice(_INT32[1:]),
        "minSubGroups": rng.choice(_INT32),
        "matchLabelKeys": rng.choice((["k"], ["k", "app"], [])),
        "networkTopology": {"mode": "hard", "highestTierAllowed": rng.choice(_INT32)},
    }
    group = _pod_group(rng, **({"subGroupPolicy": [policy]} if rng.random() < 0.6 else {}))
    pods = [_pod(rng, f"evil-{number}") for number in range(rng.randint(1, 3))]
    for pod in pods:
        pod["metadata"].setdefault("labels", {})["k"] = rng.choice(_LABELS)
        pod["metadata"].setdefault("annotations", {})["scheduling.k8s.io/group-name"] = "evil"
    documents = [group, *pods]
    rng.shuffle(documents)
    return documents


def _node(rng: Random) -> list[Json]:
    amounts = {name: rng.choice(_WILD) for name in rng.sample(_RESOURCES, rng.randint(1, 5))}
    spec: Json = {"unschedulable": rng.random() < 0.3}
    if rng.random() < 0.3:
        spec["taints"] = [{"key": "k", "value": rng.choice(_LABELS), "effect": "NoSchedule"}]
    status = {"allocatable": amounts, "capacity": {name: rng.choice(_WILD) for name in amounts}}
    meta = _meta(rng, namespaced=False)
    return [{"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}]


def _queue(rng: Random) -> list[Json]:
    spec: Json = {"weight": rng.choice(_INT32), "priority": rng.choice(_SIGNED), "reclaimable": rng.random() < 0.5}
    for name in ("capability", "deserved"):
        if rng.random() < 0.5:
            spec[name] = _amounts(rng, _WILD)
    documents = [_queue_named(rng, "evil", {**spec, "parent": rng.choice(("", "evil-up", "missing"))})]
    if rng.random() < 0.5:  # two that are each other's parent, or a chain
        documents.append(_queue_named(rng, "evil-up", {"parent": rng.choice(("evil", "evil-up", ""))}))
    return documents + ([_pod_group(rng, queue="evil")] if rng.random() < 0.5 else [])


def _queue_named(rng: Random, name: str, spec: Json) -> Json:
    meta = _meta(rng, name, namespaced=False)
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": spec}


def _kai_queue(rng: Random) -> list[Json]:
    numbers = (-1, 0, 0.1, 1e-300, 1e300, 2**53 + 1, 2**63, 1.7976931348623157e308)
    names = ("quota", "limit", "overQuotaWeight")
    shares = {name: {part: rng.choice(numbers) for part in names} for name in ("cpu", "gpu", "memory")}
    spec: Json = {"resources": shares, "priority": rng.choice(_SIGNED)}
    spec["parentQueue"] = rng.choice(("", "evil-kai-up", "evil-kai"))
    spec["preemptMinRuntime"] = rng.choice(("1s", "99999999h", "2540400h"))
    meta = _meta(rng, rng.choice(("evil-kai", "default")), namespaced=False)
    return [{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta, "spec": spec}]


def _kai_gang(rng: Random) -> list[Json]:
    names = ["a", "b", "c"]
    groups = [
        {"name": name, "minMember": rng.choice(_INT32), **({"parent": rng.choice(names)} if rng.random() < 0.5 else {})}
        for name in names
    ]
    spec: Json = {"minMember": rng.choice(_INT32), "queue": "default", "subGroups": groups}
    spec["topologyConstraint"] = {"topology": rng.choice(("evil", "missing")), "requiredTopologyLevel": "k"}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": _meta(rng), "spec": spec}
    pod = _pod(rng)
    pod["metadata"].setdefault("annotations", {})["pod-group-name"] = "evil"
    return [group, pod, *_topology(rng)]


def _topology(rng: Random) -> list[Json]:
    levels = [{"nodeLabel": label} for label in rng.choice((["k"], ["k", "kubernetes.io/hostname"], ["k", "app", "z"]))]
    meta = _meta(rng, namespaced=False)
    return [{"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": meta, "spec": {"levels": levels}}]


def _hyper_node(rng: Random, name: str, tier: int, members: list[Json]) -> Json:
    meta = _meta(rng, name, namespaced=False)
    spec = {"tier": tier, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": meta, "spec": spec}


def _member(kind: str, **selector: Any) -> Json:  # Any: fields of the selector
    return {"type": kind, "selector": selector}


def _hyper_nodes(rng: Random) -> list[Json]:
    inner = _hyper_node(rng, "evil", rng.choice(_INT32), [_member("Node", exactMatch={"name": CROWDED})])
    pattern = rng.choice(("^evil.*$", "(evil)*(evil)*x", "e" * 5000, "(((((e)))))"))
    outer = [_member("HyperNode", exactMatch={"name": rng.choice(("evil", "evil-up", "missing"))})]
    outer.append(_member("HyperNode", regexMatch={"pattern": pattern}))
    outer.append(_member("Node", labelMatch=_selector(rng)))
    return [inner, _hyper_node(rng, "evil-up", rng.choice(_INT32), outer)]


def _chain(rng: Random) -> list[Json]:
    """A chain of HyperNodes, or a ring of them."""
    length = rng.choice((3, 30, 300))
    inner = [CROWDED, *(f"evil-{tier}" for tier in range(1, length))]
    chain = []
    for tier in range(1, length):
        kind = "Node" if tier == 1 else "HyperNode"
        chain.append(_hyper_node(rng, f"evil-{tier}", tier, [_member(kind, exactMatch={"name": inner[tier - 1]})]))
    if rng.random() < 0.5:
        chain[0]["spec"]["members"].append(_member("HyperNode", exactMatch={"name": f"evil-{length - 1}"}))
    return chain


def _volumes(rng: Random) -> list[Json]:
    sizes = {"storage": rng.choice(_QUANTITIES)}
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(rng),
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "evil", "resources": {"requests": sizes}},
    }
    storage_class: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _meta(rng, namespaced=False),
        "provisioner": rng.choice(("kubernetes.io/no-provisioner", "evil.example.com")),
        "volumeBindingMode": rng.choice(("WaitForFirstConsumer", "Immediate")),
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": [rng.choice(_LABELS)]}]}],
    }
    spec: Json = {"capacity": {"storage": rng.choice(_QUANTITIES)}, "accessModes": ["ReadWriteOnce"]}
    spec |= {"storageClassName": "evil", "hostPath": {"path": "/evil"}}
    term = {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["9" * 18]}]}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _meta(rng, namespaced=False),
        "spec": spec,
    }
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "evil"}}]
    documents = [claim, storage_class, volume, _pod(rng, volumes=mounts)]
    rng.shuffle(documents)
    return documents


def _nested(depth: int) -> Json:
    made: Json = {"x": 1}
    for _ in range(depth):
        made = {"x": made}
    return made


def _devices(rng: Random) -> list[Json]:
    request = {"name": "r", "exactly": {"deviceClassName": "evil", "count": rng.choice((1, 2**31, 2**63 - 1))}}
    spec: Json = {"devices": {"requests": [request] * rng.choice((1, 30))}}
    if rng.random() < 0.5:
        spec["devices"]["config"] = [
            {"opaque": {"driver": "evil.example.com", "parameters": _nested(rng.choice((5, 90, 400)))}}
        ]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": _meta(rng), "spec": spec}
    meta = _meta(rng, namespaced=False)
    selectors = [{"cel": {"expression": rng.choice(("true", 'device.driver == "evil"', "a" * 5000))}}]
    kind = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta,
        "spec": {"selectors": selectors},
    }
    devices = [{"name": f"d{number}"} for number in range(rng.choice((0, 1, 128)))]
    pool = {"name": "p", "generation": 2**63 - 1, "resourceSliceCount": 1}
    offer: Json = {"driver": "evil", "nodeName": CROWDED, "pool": pool, "devices": devices}
    part = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": _meta(rng, namespaced=False)}
    documents = [claim, kind, {**part, "spec": offer}]
    documents.append(_pod(rng, resourceClaims=[{"name": "r", "resourceClaimName": "evil"}]))
    rng.shuffle(documents)
    return documents


def _limits(rng: Random) -> list[Json]:
    """Priority classes, budgets and quotas."""
    bound = rng.choice((0, 2**31 - 1, "0%", "100%", "999999999%"))
    key = rng.choice(("minAvailable", "maxUnavailable"))
    budget: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _meta(rng)}
    budget["spec"] = {key: bound, "selector": _selector(rng)}
    quota: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _meta(rng), "spec": {"hard": _amounts(rng)}}
    priority: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta(rng, namespaced=False),
    }
    priority["value"] = rng.choice((-(2**31), 10**9, 0))
    return [budget, quota, priority, _pod(rng, priorityClassName="evil")]


_MAKERS: Final[tuple[Callable[[Random], list[Json]], ...]] = (
    *(_lone_pod, _lone_pod, _gang, _gang, _node, _node, _queue, _kai_queue, _kai_gang, _topology),
    *(_hyper_nodes, _chain, _volumes, _devices, _limits),
)

"""Requests for the tests of admission rules, and what becomes of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from muster.admission import CREATE, DELETE, HOOKS, UPDATE, Facts, Request, Settings, Verdict, answer, judge
from muster.api import HyperNode, KubeObject, Namespace, Queue
from muster.api.kinds import decode_as

Json = dict[str, Any]

SETTINGS = Settings()
_PATHS = {
    "CronJob": "cronjobs",
    "HyperNode": "hypernodes",
    "Job": "jobs",
    "JobFlow": "jobflows",
    "PodGroup": "podgroups",
    "Pod": "pods",
    "Queue": "queues",
}
_VERSIONS = {
    "CronJob": "batch.volcano.sh/v1alpha1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
    "Job": "batch.volcano.sh/v1alpha1",
    "JobFlow": "flow.volcano.sh/v1alpha1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Pod": "v1",
    "Queue": "scheduling.volcano.sh/v1beta1",
}


def document(kind: str, name: str, spec: Json, *, annotations: Json | None = None, status: Json | None = None) -> Json:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    whole = {"apiVersion": _VERSIONS[kind], "kind": kind, "metadata": metadata, "spec": spec}
    return {**whole, "status": status} if status else whole


def queue(name: str, *, annotations: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    return document("Queue", name, spec, annotations=annotations, status=status)


def task(name: str = "worker", **more: Any) -> Json:
    container = {"name": "main", "image": "train:1"}
    return {"name": name, "replicas": 2, "template": {"spec": {"containers": [container]}}, **more}


def job(**spec: Any) -> Json:
    return document("Job", "train", {"queue": "default", "tasks": [task()], **spec})


def facts(*documents: Json) -> Facts:
    """What the cluster has; the default queue is always there."""
    kinds: dict[str, type[KubeObject]] = {"Queue": Queue, "HyperNode": HyperNode, "Namespace": Namespace}
    return Facts.of(decode_as(each, kinds[each["kind"]]) for each in (queue("default"), *documents))


def create(given: Json, *there: Json, settings: Settings = SETTINGS) -> Verdict:
    return _ask(CREATE, given, {}, facts(*there), settings)


def update(old: Json, new: Json, *there: Json, settings: Settings = SETTINGS) -> Verdict:
    return _ask(UPDATE, new, old, facts(*there, *([old] if old["kind"] == "Queue" else [])), settings)


def delete(given: Json, *there: Json, settings: Settings = SETTINGS) -> Verdict:
    hook = HOOKS[f"/{_PATHS[given['kind']]}/validate"]
    request = Request(DELETE, {}, given, given["metadata"]["name"])
    return judge(hook, request, facts(given, *there), settings)


def _ask(operation: str, new: Json, old: Json, known: Facts, settings: Settings) -> Verdict:
    hook = HOOKS[f"/{_PATHS[new['kind']]}/validate"]
    return judge(hook, Request(operation, new, old, new["metadata"].get("name", "")), known, settings)


def filled(given: Json, *there: Json, namespace: str = "default") -> Json:
    """The object with what a hook fills in, by way of the patch."""
    hook = HOOKS[f"/{_PATHS[given['kind']]}/mutate"]
    verdict = judge(hook, Request(CREATE, given, {}, namespace=namespace), facts(*there), SETTINGS)
    whole = deepcopy(given)
    for operation in verdict.patch:
        _apply(whole, operation)
    return whole


def _apply(whole: Any, operation: Json) -> None:
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    place = whole
    for part in path:
        place = place[int(part)] if isinstance(place, list) else place[part]
    assert (last in place) == (operation["op"] == "replace")
    place[last] = operation["value"]


def review(kind: str, operation: str, given: Json | None, *, verb: str = "validate", **more: Any) -> Json:
    """The whole answer to a question, as the server gives it."""
    body = msgspec.json.encode(question(kind, operation, given, **more))
    text, _ = answer(HOOKS[f"/{_PATHS[kind]}/{verb}"], body, facts(), SETTINGS)
    found: Json = msgspec.json.decode(text)
    return found


def question(kind: str, operation: str, given: Json | None, **more: Any) -> Json:
    group, _, version = _VERSIONS[kind].rpartition("/")
    asked: Json = {"uid": "u1", "kind": {"group": group, "version": version, "kind": kind}, "operation": operation}
    metadata = (given or {}).get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    asked |= {"object": given, "name": name, **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}

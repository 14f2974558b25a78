"""Clusters of Ray, applications of Spark, leaders with their workers, cliques of Grove."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from muster.api.names import KAI_OLD_QUEUE, KAI_QUEUE
from muster.api.objects.workloads import ForeignWorkload
from muster.controllers.contract import Json, owner_reference
from muster.controllers.played.contract import (
    Scene,
    Wish,
    child_of,
    count_of,
    digest,
    is_active,
    is_finished,
    is_running,
    mapping,
    pod_of,
)
from muster.controllers.played.plain import by_the_clock

_LWS: Final = "leaderworkerset.sigs.k8s.io"
_MIB: Final = 2**20
_JVM: Final = re.compile(r"(\d+)([kmgt]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_LEAST_OVERHEAD: Final = 384 * _MIB


# -- Ray -------------------------------------------------------------------------------------------------------


def ray_cluster(scene: Scene) -> Wish:
    """A head, and the workers of every group."""
    thing, spec = scene.thing, scene.spec
    if spec.get("suspend") is True:
        return Wish(leaving=sorted(scene.pods))
    head = mapping(spec.get("headGroupSpec"))
    wished = [_ray_pod(thing, f"{thing.name}-head", head, "head", "headgroup")]
    for number, each in enumerate(spec.get("workerGroupSpecs") or ()):
        group = mapping(each)
        if group.get("suspend") is True:
            continue
        name = str(group.get("groupName") or f"worker-group-{number}")
        least = count_of(group.get("minReplicas"), 0, "spec.workerGroupSpecs.minReplicas")
        replicas = max(count_of(group.get("replicas"), 0, "spec.workerGroupSpecs.replicas"), least)
        hosts = count_of(group.get("numOfHosts"), 1, "spec.workerGroupSpecs.numOfHosts")
        names = [f"{thing.name}-{name}-worker-{index}" for index in range(replicas * hosts)]
        wished += [_ray_pod(thing, each, group, "worker", name) for each in names]
    known = {document["metadata"]["name"] for document in wished}
    is_up = all(is_running(scene.pods.get(name)) for name in known)
    return Wish(wished, leaving=sorted(set(scene.pods) - known), status={"state": "ready"} if is_up else {})


def _ray_pod(thing: ForeignWorkload, name: str, group: Json, kind: str, group_name: str) -> Json:
    labels = {
        "ray.io/cluster": thing.name,
        "ray.io/node-type": kind,
        "ray.io/group": group_name,
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{thing.name}-{kind}",
    }
    of_cluster = {
        key: text
        for key, text in thing.metadata.labels.items()
        if key
        in ("ray.io/scheduler-name", "volcano.sh/queue-name", KAI_QUEUE, KAI_OLD_QUEUE, "ray.io/priority-class-name")
    }
    return pod_of(thing, name, group.get("template"), {**of_cluster, **labels})


def ray_job(scene: Scene) -> Wish:
    """A cluster, and the Job that submits the work to it once it runs; the cluster goes with the work if it is to."""
    thing, spec = scene.thing, scene.spec
    if spec.get("suspend") is True:
        return Wish()
    selector = mapping(spec.get("clusterSelector"))
    name = str(selector.get("ray.io/cluster") or f"{thing.name}-{digest(spec.get('rayClusterSpec'), 5)}")
    marks = {"labels": dict(thing.metadata.labels), "annotations": dict(thing.metadata.annotations)}
    status = {"rayClusterName": name}
    submitter = scene.child("Job", thing.name)
    if is_finished(submitter):
        state = "Complete" if is_finished(submitter, "Complete") else "Failed"
        status["jobDeploymentStatus"] = state
        if spec.get("shutdownAfterJobFinishes") is True:
            return Wish([_submitter(scene)], status=status)
    wished = []
    if not selector:
        wished.append(
            child_of(thing, thing.api_version, "RayCluster", name, mapping(spec.get("rayClusterSpec")), marks)
        )
    cluster = scene.find("RayCluster", f"{thing.namespace}/{name}")
    is_up = cluster is not None and cluster.status.get("state") == "ready"
    if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode" and (is_up or submitter is not None):
        wished.append(_submitter(scene))
    return Wish(wished, status=status)


def _submitter(scene: Scene) -> Json:
    thing, given = scene.thing, mapping(scene.spec.get("submitterPodTemplate"))
    requests = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    head = mapping(mapping(mapping(scene.spec.get("rayClusterSpec")).get("headGroupSpec")).get("template"))
    scheduler = mapping(head.get("spec")).get("schedulerName")
    plain = {"containers": [{"name": "ray-job-submitter", "image": "ray", "resources": requests}]}
    template = given or {"spec": {**plain, **({"schedulerName": scheduler} if scheduler else {})}}
    spec = {"backoffLimit": scene.spec.get("backoffLimit") or 2, "template": template}
    return child_of(thing, "batch/v1", "Job", thing.name, spec)


def ray_service(scene: Scene) -> Wish:
    """A cluster that serves."""
    thing, config = scene.thing, mapping(scene.spec.get("rayClusterConfig"))
    name = f"{thing.name}-{digest(config, 5)}"
    marks = {"labels": dict(thing.metadata.labels), "annotations": dict(thing.metadata.annotations)}
    status = {"activeServiceStatus": {"rayClusterName": name}}
    return Wish([child_of(thing, thing.api_version, "RayCluster", name, config, marks)], status=status)


def ray_cron_job(scene: Scene) -> Wish:
    """A RayJob for each time that has come."""
    return by_the_clock(scene, scene.thing.api_version, "RayJob", {"spec": scene.spec.get("jobTemplate")})


# -- LeaderWorkerSets ------------------------------------------------------------------------------------------


def leader_worker_set(scene: Scene) -> Wish:
    """Groups of a leader and its workers; workers wait for their leader where it is to be ready first."""
    thing, spec = scene.thing, scene.spec
    given = mapping(spec.get("leaderWorkerTemplate"))
    size = max(1, count_of(given.get("size"), 1, "spec.leaderWorkerTemplate.size"))
    wished: list[Json] = []
    for group in range(count_of(spec.get("replicas"), 1, "spec.replicas")):
        leader = f"{thing.name}-{group}"
        wished.append(
            _lws_pod(thing, leader, given.get("leaderTemplate") or given.get("workerTemplate"), group, 0, size)
        )
        if spec.get("startupPolicy") == "LeaderReady" and not is_running(scene.pods.get(leader)):
            continue
        template = given.get("workerTemplate")
        wished += [_lws_pod(thing, f"{leader}-{n}", template, group, n, size) for n in range(1, size)]
    names = {document["metadata"]["name"] for document in wished}
    return Wish(wished, leaving=sorted(set(scene.pods) - names) if spec.get("startupPolicy") != "LeaderReady" else [])


def _lws_pod(thing: ForeignWorkload, name: str, template: object, group: int, number: int, size: int) -> Json:
    labels = {
        f"{_LWS}/name": thing.name,
        f"{_LWS}/group-index": str(group),
        f"{_LWS}/worker-index": str(number),
        f"{_LWS}/group-key": digest(f"{thing.key}/{group}"),
    }
    return pod_of(thing, name, template, labels, {f"{_LWS}/size": str(size)})


# -- Spark -----------------------------------------------------------------------------------------------------


def spark_application(scene: Scene) -> Wish:
    """A driver, and executors once it runs; they go with it."""
    thing, spec = scene.thing, scene.spec
    driver_name = str(mapping(spec.get("driver")).get("podName") or f"{thing.name}-driver")
    driver = scene.pods.get(driver_name)
    executors = {name for name in scene.pods if name != driver_name}
    if driver is not None and not is_active(driver):
        return Wish(leaving=sorted(name for name in executors if is_active(scene.pods[name])))
    wished = [_spark_pod(scene, driver_name, "driver")]
    if driver is None or not is_running(driver):
        return Wish(wished)
    dynamic, given = mapping(spec.get("dynamicAllocation")), mapping(spec.get("executor"))
    count = count_of(given.get("instances"), 1, "spec.executor.instances")
    if dynamic.get("enabled") is True:
        count = count_of(
            dynamic.get("initialExecutors") or dynamic.get("minExecutors"), count, "spec.dynamicAllocation"
        )
    for number in range(1, count + 1):
        document = _spark_pod(scene, f"{thing.name}-exec-{number}", "executor")
        document["metadata"]["ownerReferences"] = [owner_reference(driver)]
        wished.append(document)
    return Wish(wished)


def _spark_pod(scene: Scene, name: str, role: str) -> Json:
    thing, spec = scene.thing, scene.spec
    given = mapping(spec.get(role))
    cores = str(given.get("coreRequest") or given.get("cores") or 1)
    resources: Json = {"requests": {"cpu": cores, "memory": str(_spark_memory(spec, given))}}
    if gpu := mapping(given.get("gpu")):
        resources["limits"] = {str(gpu.get("name")): str(gpu.get("quantity"))}
    labels = {
        "spark-app-name": thing.name,
        "spark-app-selector": f"spark-{thing.metadata.uid}",
        "spark-role": role,
        "sparkoperator.k8s.io/app-name": thing.name,
    }
    template = mapping(given.get("template"))
    metadata = mapping(template.get("metadata"))
    volcano = spec.get("batchScheduler")
    scheduler = given.get("schedulerName") or volcano
    kept = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "terminationGracePeriodSeconds")
    of_pod = {**mapping(template.get("spec")), **{key: given[key] for key in kept if key in given}}
    containers = [{"name": f"spark-kubernetes-{role}", "image": "spark", "resources": resources}]
    body = {**of_pod, "containers": containers, **({"schedulerName": scheduler} if scheduler else {})}
    annotations = {**mapping(metadata.get("annotations")), **mapping(given.get("annotations"))}
    marks = {**mapping(metadata.get("labels")), **mapping(given.get("labels")), **labels}
    return pod_of(thing, name, {"metadata": {"labels": marks, "annotations": annotations}, "spec": body})


def _spark_memory(spec: Json, given: Json) -> int:
    """Bytes of a pod: the heap, and what Spark adds for everything else."""
    heap = _jvm_bytes(str(given.get("memory") or "1g"))
    extra = given.get("memoryOverhead")
    if extra is not None:
        return heap + _jvm_bytes(str(extra))
    factor = spec.get("memoryOverheadFactor") or (0.1 if spec.get("type") in ("Java", "Scala") else 0.4)
    return heap + max(int(heap * float(str(factor))), _LEAST_OVERHEAD)


def _jvm_bytes(text: str) -> int:
    found = _JVM.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else 2**30


def scheduled_spark(scene: Scene) -> Wish:
    """An application for each time that has come."""
    return by_the_clock(scene, scene.thing.api_version, "SparkApplication", {"spec": scene.spec.get("template")})


# -- Grove -----------------------------------------------------------------------------------------------------


def pod_clique_set(scene: Scene) -> Wish:
    """For each replica a PodGang with all cliques; those of scaling groups once for each replica of the group."""
    wished: list[Json] = []
    for number in range(count_of(scene.spec.get("replicas"), 1, "spec.replicas")):
        wished += _gang_of_cliques(scene, number)
    return Wish(wished)


def _gang_of_cliques(scene: Scene, number: int) -> Iterator[Json]:
    thing = scene.thing
    template = mapping(scene.spec.get("template"))
    gang = f"{thing.name}-{number}"
    groups: list[Json] = []
    pods: list[Json] = []
    scaled = {
        str(name): mapping(each)
        for each in template.get("podCliqueScalingGroups") or ()
        for name in mapping(each).get("cliqueNames") or ()
    }
    for each in template.get("cliques") or ():
        clique = mapping(each)
        name, spec = str(clique.get("name")), mapping(clique.get("spec"))
        around = scaled.get(name, {})
        for copy in range(count_of(around.get("replicas"), 1, "spec.template.podCliqueScalingGroups.replicas")):
            full = f"{gang}-{around['name']}-{copy}-{name}" if around else f"{gang}-{name}"
            count = count_of(spec.get("replicas"), 1, "spec.template.cliques.spec.replicas")
            least = count_of(spec.get("minAvailable"), count, "spec.template.cliques.spec.minAvailable")
            groups.append({"name": full, "minReplicas": least})
            labels = {"grove.io/podgang": gang, "grove.io/podclique": full, "app.kubernetes.io/part-of": thing.name}
            body = {"metadata": clique, "spec": mapping(spec.get("podSpec"))}
            pods += [pod_of(thing, f"{full}-{index}", body, labels) for index in range(count)]
    priority = template.get("priorityClassName")
    of_gang = {"podgroups": groups, **({"priorityClassName": priority} if priority else {})}
    marks = {"labels": dict(thing.metadata.labels), "annotations": dict(thing.metadata.annotations)}
    yield child_of(thing, "scheduler.grove.io/v1alpha1", "PodGang", gang, of_gang, marks)
    yield from pods

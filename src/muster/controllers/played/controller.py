"""Plays the operators of all kinds in one table: what is wished for and not there is made, what is too much goes.

A level, never an edge, as with all controllers: whatever becomes of a pod, the kind's player says what should be there
now. Operators of real clusters are not played: there they run themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster.api import KubeObject, Pod, UserError, encode
from muster.api.objects.batch import Job
from muster.api.objects.meta import OwnerReference
from muster.api.objects.workloads import ForeignWorkload, foreign_type
from muster.controllers.contract import (
    Action,
    Controller,
    Create,
    Delete,
    EventKind,
    Json,
    Keeper,
    Patch,
    Plan,
    Step,
    Target,
    WriteStatus,
    target_of,
)
from muster.controllers.played.contract import Player, Scene, Wish, mapping
from muster.controllers.played.plain import (
    cron_job,
    deployment,
    job,
    knative_revision,
    knative_service,
    notebook,
    replica_set,
    stateful_set,
)
from muster.controllers.played.serving import (
    leader_worker_set,
    pod_clique_set,
    ray_cluster,
    ray_cron_job,
    ray_job,
    ray_service,
    scheduled_spark,
    spark_application,
)
from muster.controllers.played.training import job_set, replica_specs, train_job
from muster.controllers.played.workflows import cron_workflow, workflow

#: Who plays a kind, by kind and API group.
PLAYERS: Final[Mapping[tuple[str, str], Player]] = {
    ("Deployment", "apps"): deployment,
    ("ReplicaSet", "apps"): replica_set,
    ("StatefulSet", "apps"): stateful_set,
    ("ReplicationController", ""): replica_set,
    ("Job", "batch"): job,
    ("CronJob", "batch"): cron_job,
    ("PyTorchJob", "kubeflow.org"): replica_specs("pytorchReplicaSpecs", "pytorchjob-controller"),
    ("TFJob", "kubeflow.org"): replica_specs("tfReplicaSpecs", "tfjob-controller"),
    ("XGBoostJob", "kubeflow.org"): replica_specs("xgbReplicaSpecs", "xgboostjob-controller"),
    ("MPIJob", "kubeflow.org"): replica_specs("mpiReplicaSpecs", "mpijob-controller"),
    ("PaddleJob", "kubeflow.org"): replica_specs("paddleReplicaSpecs", "paddlejob-controller"),
    ("JAXJob", "kubeflow.org"): replica_specs("jaxReplicaSpecs", "jaxjob-controller"),
    ("MXJob", "kubeflow.org"): replica_specs("mxReplicaSpecs", "mxjob-controller"),
    ("Notebook", "kubeflow.org"): notebook,
    ("TrainJob", "trainer.kubeflow.org"): train_job,
    ("RayCluster", "ray.io"): ray_cluster,
    ("RayJob", "ray.io"): ray_job,
    ("RayService", "ray.io"): ray_service,
    ("RayCronJob", "ray.io"): ray_cron_job,
    ("JobSet", "jobset.x-k8s.io"): job_set,
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): leader_worker_set,
    ("SparkApplication", "sparkoperator.k8s.io"): spark_application,
    ("ScheduledSparkApplication", "sparkoperator.k8s.io"): scheduled_spark,
    ("Service", "serving.knative.dev"): knative_service,
    ("Revision", "serving.knative.dev"): knative_revision,
    ("PodCliqueSet", "grove.io"): pod_clique_set,
    ("Workflow", "argoproj.io"): workflow,
    ("CronWorkflow", "argoproj.io"): cron_workflow,
}


def player_of(thing: ForeignWorkload) -> Player | None:
    """Who makes the pods of a workload; None: nobody, it only says how others are made."""
    return PLAYERS.get((thing.kind, thing.api_version.rpartition("/")[0]))


class WorkloadPlayer(Keeper):
    """The workloads of others on a cluster that has none of their operators.

    `repeats`: whether times to come count as something that is due; otherwise only the first of them does.
    """

    name = "workloads"

    def __init__(self, *, repeats: bool = True) -> None:
        super().__init__()
        self._repeats = repeats
        self._things: dict[str, ForeignWorkload] = {}
        self._pods: dict[str, Pod] = {}
        #: By the uid of their owner: pods by name, and workloads by kind and name.
        self._pods_of: dict[str, dict[str, Pod]] = {}
        self._made_of: dict[str, dict[tuple[str, str], ForeignWorkload]] = {}
        self._by_uid: dict[str, str] = {}

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        del now
        is_gone = kind == "DELETED"
        if isinstance(thing, Pod):
            self._take_pod(thing, is_gone=is_gone)
        elif isinstance(thing, ForeignWorkload):
            self._take_workload(thing, is_gone=is_gone)
        elif isinstance(thing, Job):
            self._take_job(thing, is_gone=is_gone)

    def _take_job(self, job: Job, *, is_gone: bool) -> None:
        """A Job of Volcano's that a workload made is one of its parts; its pods are made elsewhere."""
        owner = _controller(job)
        if owner is None or owner.uid not in self._by_uid:
            return
        made = self._made_of.setdefault(owner.uid, {})
        if is_gone:
            made.pop((job.kind, job.name), None)
        else:
            document, kind = encode(job), foreign_type(job.api_version, job.kind)
            spec, status = (mapping(document.get(part)) for part in ("spec", "status"))
            made[job.kind, job.name] = kind(metadata=job.metadata, spec=spec, status=status)
        self.agenda.add(self._by_uid[owner.uid])

    def _take_pod(self, pod: Pod, *, is_gone: bool) -> None:
        self.keep(self._pods, pod, is_gone=is_gone)
        uid = self._owner_of_pod(pod)
        if uid not in self._by_uid:
            return
        pods = self._pods_of.setdefault(uid, {})
        if is_gone:
            pods.pop(pod.name, None)
        else:
            pods[pod.name] = pod
        self.agenda.add(self._by_uid[uid])

    def _owner_of_pod(self, pod: Pod) -> str:
        """The uid of a pod's owner; pods of a pod, as executors are, have its owner."""
        owner = _controller(pod)
        if owner is None or owner.kind != Pod.kind:
            return "" if owner is None else owner.uid
        above = self._pods.get(f"{pod.namespace}/{owner.name}")
        return "" if above is None else self._owner_of_pod(above)

    def _take_workload(self, thing: ForeignWorkload, *, is_gone: bool) -> None:
        key, uid = f"{thing.kind}/{thing.key}", thing.metadata.uid
        owner = _controller(thing)
        made = self._made_of.setdefault(owner.uid, {}) if owner is not None else {}
        if is_gone:
            self._things.pop(key, None)
            self._by_uid.pop(uid, None)
            made.pop((thing.kind, thing.name), None)
        else:
            self._things[key] = thing
            self._by_uid[uid] = key
            made[thing.kind, thing.name] = thing
        self.agenda.add(key)
        if owner is not None and owner.uid in self._by_uid:
            self.agenda.add(self._by_uid[owner.uid])

    def steps(self, now: float) -> Iterator[Step]:
        for key in self.agenda.ready(now):
            thing = self._things.get(key)
            player = None if thing is None else player_of(thing)
            if thing is None or player is None:
                self.agenda.drop(key)
                self.agenda.settle(key, now)
                continue
            scene = self._scene(thing, now)
            try:
                wish = player(scene)
            except UserError as fault:
                raise fault.located(subject=f"{thing.kind} {thing.key}") from None
            is_first = not scene.made and not wish.objects
            self.agenda.remind(key, wish.due if self._repeats or is_first else None)
            yield Step(self.name, key, Plan(tuple(_actions(scene, wish))))

    def _scene(self, thing: ForeignWorkload, now: float) -> Scene:
        uid = thing.metadata.uid
        return Scene(
            thing,
            self._pods_of.get(uid, {}),
            self._made_of.get(uid, {}),
            lambda kind, key: self._things.get(f"{kind}/{key}"),
            now,
        )


def _controller(thing: KubeObject) -> OwnerReference | None:
    return next((each for each in thing.metadata.owner_references if each.controller), None)


def _actions(scene: Scene, wish: Wish) -> Iterator[Action]:
    wished = set()
    for document in wish.objects:
        kind, name = document["kind"], document["metadata"]["name"]
        wished.add((kind, name))
        if kind == Pod.kind:
            if name not in scene.pods:
                yield Create(document)
            continue
        standing = scene.made.get((kind, name))
        if standing is None:
            yield Create(document)
        elif _plain(document["spec"]) != _plain(standing.spec):
            yield Patch(target_of(standing), {"spec": document["spec"]})
    yield from (Delete(target_of(scene.pods[name])) for name in wish.leaving if _is_there(scene, name))
    if not wish.keeps:
        yield from (Delete(target_of(child)) for key, child in scene.made.items() if key not in wished)
    thing = scene.thing
    if wish.status and {**thing.status, **wish.status} != thing.status:
        target = Target(thing.api_version, thing.kind, thing.key, thing.metadata.uid)
        yield WriteStatus(target, {**thing.status, **wish.status}, thing.metadata.resource_version)


def _is_there(scene: Scene, name: str) -> bool:
    return name in scene.pods and scene.pods[name].metadata.deletion_timestamp is None


def _plain(spec: Json) -> Json:
    """A spec without what is not said."""
    return {name: value for name, value in spec.items() if value is not None}


_check: type[Controller] = WorkloadPlayer  # the contract

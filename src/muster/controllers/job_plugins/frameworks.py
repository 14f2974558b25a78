"""pytorch, mpi, tensorflow, ray and hcclrank: what each framework has to know of the other pods of its Job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api.names import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from muster.api.objects.batch import Job, JobTask
from muster.controllers.contract import Apply, Create, Json, Target
from muster.controllers.job_plugins.contract import (
    JobPlugin,
    JobPluginError,
    add_env,
    containers_of,
    flag,
    host_of,
    hosts_of,
    metadata_of,
    open_port,
    port_flag,
    task_flag,
    task_named,
)

_RANK_INDEX: Final = "hccl/rankIndex"
_WAITING: Final = "wait-for-master"
#: A loop in the shell of small images: tries the port every other second, for as long as it may take; images without
#: netcat have a shell that opens connections itself.
_WAIT_SCRIPT: Final = """\
n=0
until {{ nc -z -w 2 {host} {port} || echo > /dev/tcp/{host}/{port}; }} 2> /dev/null; do
  n=$((n + 2))
  if [ $n -ge {seconds} ]; then echo "{host}:{port} did not answer in {seconds} s"; exit 1; fi
  sleep 2
done
"""


class PyTorch(JobPlugin):
    """Rank, world size and the master's address, for torch.distributed."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._master = task_flag(arguments, "master", "master", is_needed=True)
        self._worker = task_flag(arguments, "worker", "worker")
        self._port = port_flag(arguments, "port", 23456)
        self._waits = flag(arguments, "wait-master-enabled", default=False)
        self._wait_s = flag(arguments, "wait-master-timeout", 300)
        self._image = flag(arguments, "wait-master-image", "busybox:1.36.1")

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        master, worker = task_named(job, self._master), task_named(job, self._worker)
        if master is None:
            return
        host = host_of(job, master)
        size = sum(each.replicas for each in {self._master: master, self._worker: worker}.values() if each is not None)
        ranks = {self._master: 0, self._worker: index + 1}
        for container in containers_of(pod, with_init=False):
            open_port(container, "pytorchjob-port", self._port)
            add_env(container, "MASTER_ADDR", host)
            add_env(container, "MASTER_PORT", str(self._port))
            add_env(container, "WORLD_SIZE", str(size))
            if task.name in ranks:
                add_env(container, "RANK", str(ranks[task.name]))
        if task.name == self._worker and self._waits:
            self._wait_for(host, pod)

    def _wait_for(self, host: str, pod: Json) -> None:
        containers = pod["spec"].setdefault("initContainers", [])
        if all(each.get("name") != _WAITING for each in containers):
            script = _WAIT_SCRIPT.format(host=host, port=self._port, seconds=self._wait_s)
            containers.append({"name": _WAITING, "image": self._image, "command": ["sh", "-c", script]})


class Mpi(JobPlugin):
    """The hosts of the workers for mpirun, and a port for ssh."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._master = task_flag(arguments, "master", "master", is_needed=True)
        self._worker = task_flag(arguments, "worker", "worker")
        self._port = port_flag(arguments, "port", 22)

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        del index
        worker = task_named(job, self._worker)
        is_master = task.name == self._master
        if is_master and worker is None:
            return
        for container in containers_of(pod):
            open_port(container, "mpijob-port", self._port)
            if is_master and worker is not None:
                add_env(container, "MPI_HOST", ",".join(hosts_of(job, worker)))


class TensorFlow(JobPlugin):
    """The cluster and the pod's place in it, as TF_CONFIG."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._roles = {task_flag(arguments, role, role): role for role in ("ps", "worker", "chief", "evaluator")}
        self._port = port_flag(arguments, "port", 2222)

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        if sum(each.replicas for each in job.spec.tasks) == 1 and len(job.spec.tasks) == 1:
            return
        cluster = {
            role: [f"{host_of(job, each, number)}:{self._port}" for number in range(each.replicas)]
            for name, role in self._roles.items()
            if (each := task_named(job, name)) is not None and each.replicas
        }
        own = {"type": self._roles.get(task.name, task.name), "index": index}
        text = json.dumps({"cluster": cluster, "task": own}, separators=(",", ":"))
        for container in containers_of(pod, with_init=False):
            add_env(container, "TF_CONFIG", text)


class Ray(JobPlugin):
    """Commands that start the head and the workers, and a Service for the head."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._head = task_flag(arguments, "head", "head", is_needed=True)
        self._head_container = flag(arguments, "headContainer", "head")
        self._worker = task_flag(arguments, "worker", "worker")
        self._worker_container = flag(arguments, "workerContainer", "worker")
        self._ports = {
            "gcs": port_flag(arguments, "port", 6379),
            "dashboard": port_flag(arguments, "dashboardPort", 8265),
            "client-server": port_flag(arguments, "clientPort", 10001),
        }

    def objects(self, job: Job, *, is_new: bool) -> Iterable[Create | Apply]:
        if not is_new:
            return
        ports = [
            {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
            for name, number in self._ports.items()
        ]
        pods = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace, TASK_SPEC: self._head}
        metadata = metadata_of(job, _head_service(job))
        spec = {"selector": pods, "ports": ports}
        yield Create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def made(self, job: Job) -> Iterable[Target]:
        yield Target("v1", "Service", f"{job.namespace}/{_head_service(job)}")

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        del index
        head = task_named(job, self._head)
        if head is None:
            raise JobPluginError(f'expected a task named "{self._head}", got none', field="spec.plugins.ray")
        gcs, dashboard, client = self._ports.values()
        for container in containers_of(pod, with_init=False):
            name = container.get("name")
            if task.name == self._head and name == self._head_container:
                for port, number in self._ports.items():
                    open_port(container, port, number)
                options = f"--port={gcs} --dashboard-port={dashboard} --ray-client-server-port={client}"
                _run(container, f"ray start --head --block --dashboard-host=0.0.0.0 {options}")
            elif task.name == self._worker and name == self._worker_container:
                _run(container, f"ray start --block --address={host_of(job, head)}:{gcs}")


def _run(container: Json, command: str) -> None:
    container["command"] = ["sh", "-c", command]


def _head_service(job: Job) -> str:
    return f"{job.name}-head-svc"


class HcclRank(JobPlugin):
    """The rank of a pod for Ascend's collective communication: that of another framework, or counted here."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._master = task_flag(arguments, "master", "master")
        self._worker = task_flag(arguments, "worker", "worker")

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        annotations = pod["metadata"].setdefault("annotations", {})
        if annotations.get(_RANK_INDEX):
            return
        variables = (known for each in containers_of(pod, with_init=False) for known in each.get("env") or ())
        rank = next((known.get("value") for known in variables if known.get("name") == "RANK"), None)
        if not rank and task.name in (self._master, self._worker):
            master = task_named(job, self._master)
            before = master.replicas if master is not None and task.name == self._worker else 0
            rank = str(before + index)
        if rank:
            annotations[_RANK_INDEX] = rank


PLUGINS: Final = {"pytorch": PyTorch, "mpi": Mpi, "tensorflow": TensorFlow, "ray": Ray, "hcclrank": HcclRank}

"""env, svc and ssh: a number for each pod, names by which pods find each other, keys to let each other in."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api.names import JOB_NAME, JOB_NAMESPACE
from muster.api.objects.batch import Job, JobTask
from muster.controllers.contract import Apply, Create, Json, Target
from muster.controllers.job_plugins.contract import (
    MAX_PORT,
    JobPlugin,
    add_env,
    containers_of,
    flag,
    hosts_of,
    metadata_of,
    port_flag,
)

_HOSTS_PATH: Final = "/etc/volcano"
_SSH_PATH: Final = "/root/.ssh"
_SSH_FOLDER: Final = ".ssh"
_SSH_PORT: Final = 22
_PRIVATE, _PUBLIC, _AUTHORIZED, _CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
#: File modes: the keys of root are for nobody else, those elsewhere must be readable by whoever runs there.
_FOR_ROOT: Final = 0o600
_FOR_OTHERS: Final = 0o644


class Env(JobPlugin):
    """Tells containers the number of their pod in its task."""

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        del job, task
        for container in containers_of(pod):
            add_env(container, "VK_TASK_INDEX", str(index))
            add_env(container, "VC_TASK_INDEX", str(index))


class Svc(JobPlugin):
    """Gives pods host names, a Service that makes them known, a list of them, and a fence around them."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._not_ready_too = flag(arguments, "publish-not-ready-addresses", default=False)
        self._is_open = flag(arguments, "disable-network-policy", default=False)
        self._with_env = flag(arguments, "inject-hosts-env", default=True)

    def objects(self, job: Job, *, is_new: bool) -> Iterable[Create | Apply]:
        data = {key: value for task in job.spec.tasks for key, value in _host_entries(job, task)}
        metadata = metadata_of(job, self._list_name(job))
        yield Apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        if not is_new:
            return
        pods = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}
        service: Json = {"clusterIP": "None", "selector": pods}
        if self._not_ready_too:
            service["publishNotReadyAddresses"] = True
        yield Create({"apiVersion": "v1", "kind": "Service", "metadata": metadata_of(job, job.name), "spec": service})
        if not self._is_open:
            fence = {
                "podSelector": {"matchLabels": pods},
                "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
                "policyTypes": ["Ingress"],
            }
            kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
            yield Create({**kind, "metadata": metadata_of(job, job.name), "spec": fence})

    def made(self, job: Job) -> Iterable[Target]:
        yield Target("v1", "ConfigMap", f"{job.namespace}/{self._list_name(job)}")
        yield Target("v1", "Service", job.key)
        if not self._is_open:
            yield Target("networking.k8s.io/v1", "NetworkPolicy", job.key)

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        del task, index
        spec, name = pod["spec"], self._list_name(job)
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.name
        spec.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})
        for container in containers_of(pod):
            for each in job.spec.tasks if self._with_env else ():
                for key in _variables(each):
                    source = {"configMapKeyRef": {"name": name, "key": key}}
                    container.setdefault("env", []).append({"name": key, "valueFrom": source})
            container.setdefault("volumeMounts", []).append({"name": name, "mountPath": _HOSTS_PATH})

    @staticmethod
    def _list_name(job: Job) -> str:
        return f"{job.name}-svc"


def _variables(task: JobTask) -> tuple[str, str]:
    """The variables that hold the hosts of a task, and how many they are."""
    name = task.name.replace("-", "_").upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _host_entries(job: Job, task: JobTask) -> list[tuple[str, str]]:
    hosts = hosts_of(job, task)
    names, number = _variables(task)
    listed = (f"{task.name.replace('-', '_')}.host", "\n".join(hosts))
    return [listed, (names, ",".join(hosts)), (number, str(len(hosts)))]


class Ssh(JobPlugin):
    """Gives all pods of a Job one pair of keys, and a configuration that knows all of them."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._path = flag(arguments, "ssh-key-file-path", _SSH_PATH)
        self._private = flag(arguments, "ssh-private-key", "")
        self._public = flag(arguments, "ssh-public-key", "")
        port = port_flag(arguments, "ssh-port", _SSH_PORT)
        self._port = port if 0 < port <= MAX_PORT else _SSH_PORT

    def objects(self, job: Job, *, is_new: bool) -> Iterable[Create | Apply]:
        if not is_new:
            return
        private, public = (self._private, self._public) if self._private else self.make_keys()
        texts = {_PRIVATE: private, _PUBLIC: public, _AUTHORIZED: public, _CONFIG: self._config(job)}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        yield Create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata_of(job, _secret(job)), "data": data})

    def made(self, job: Job) -> Iterable[Target]:
        yield Target("v1", "Secret", f"{job.namespace}/{_secret(job)}")

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        del task, index
        name = _secret(job)
        items = [{"key": key, "path": f"{_SSH_FOLDER}/{key}"} for key in (_PRIVATE, _PUBLIC, _AUTHORIZED, _CONFIG)]
        mode = _FOR_ROOT if self._path == _SSH_PATH else _FOR_OTHERS
        secret = {"secretName": name, "items": items, "defaultMode": mode}
        pod["spec"].setdefault("volumes", []).append({"name": name, "secret": secret})
        for container in containers_of(pod):
            mount = {"name": name, "mountPath": self._path, "subPath": _SSH_FOLDER}
            container.setdefault("volumeMounts", []).append(mount)

    def _config(self, job: Job) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.spec.tasks:
            for host in hosts_of(job, task):
                lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", f"  Port {self._port}"]
        return "\n".join(lines) + "\n"


def _secret(job: Job) -> str:
    return f"{job.name}-ssh"


PLUGINS: Final = {"env": Env, "svc": Svc, "ssh": Ssh}

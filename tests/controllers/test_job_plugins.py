"""What plugins of Jobs put into pods and beside them."""

from __future__ import annotations

import base64
import json
import re

import pytest

from muster.api.objects.batch import Job
from muster.controllers.contract import Apply, Create, Json, Target
from muster.controllers.job_plugins import JobPluginError, plugin_names, plugins_of
from muster.controllers.job_plugins.keys import key_pair
from muster.controllers.jobs.pods import PodMaker
from tests.controllers.jobs_world import World, job_of, simple

TWO_TASKS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, namespace: team, uid: u1}}
spec:
  schedulerName: volcano
  plugins: {plugins}
  tasks:
  - name: {master}
    replicas: 1
    template: {{spec: {{containers: [{{name: {master}, image: x}}], initContainers: [{{name: i, image: x}}]}}}}
  - name: {worker}
    replicas: 2
    template: {{spec: {{containers: [{{name: {worker}, image: x}}]}}}}
"""


def two_tasks(plugins: str, master: str = "master", worker: str = "worker") -> Job:
    return job_of(TWO_TASKS.format(plugins=plugins, master=master, worker=worker))


def pod_of(job: Job, task: int, index: int) -> Json:
    return PodMaker(job, job.spec.tasks[task], list(plugins_of(job).values())).make(index)


def env_of(pod: Json, container: int = 0) -> dict[str, str]:
    return {known["name"]: known.get("value", "") for known in pod["spec"]["containers"][container].get("env", [])}


def objects_of(job: Job, *, is_new: bool = True) -> dict[str, Json]:
    made: list[Create | Apply] = []
    for plugin in plugins_of(job).values():
        made += plugin.objects(job, is_new=is_new)
    return {each.document["kind"]: each.document for each in made}


def test_env_tells_every_container_its_number() -> None:
    pod = pod_of(two_tasks("{env: []}"), 0, 0)
    assert env_of(pod) == {"VK_TASK_INDEX": "0", "VC_TASK_INDEX": "0"}
    assert pod["spec"]["initContainers"][0]["env"] == pod["spec"]["containers"][0]["env"]
    assert env_of(pod_of(two_tasks("{env: []}"), 1, 1))["VC_TASK_INDEX"] == "1"


def test_svc_makes_pods_known_to_each_other() -> None:
    job = two_tasks("{svc: []}", worker="big-worker")
    made = objects_of(job)
    assert made["ConfigMap"]["metadata"]["name"] == "train-svc"
    assert made["ConfigMap"]["data"] == {
        "master.host": "train-master-0.train",
        "VC_MASTER_HOSTS": "train-master-0.train",
        "VC_MASTER_NUM": "1",
        "big_worker.host": "train-big-worker-0.train\ntrain-big-worker-1.train",
        "VC_BIG_WORKER_HOSTS": "train-big-worker-0.train,train-big-worker-1.train",
        "VC_BIG_WORKER_NUM": "2",
    }
    pods = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team"}
    assert made["Service"]["spec"] == {"clusterIP": "None", "selector": pods}
    assert made["NetworkPolicy"]["spec"] == {
        "podSelector": {"matchLabels": pods},
        "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
        "policyTypes": ["Ingress"],
    }
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in made.values()} == {"u1"}
    assert set(objects_of(job, is_new=False)) == {"ConfigMap"}  # the list changes with the replicas
    spec = pod_of(job, 1, 1)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("train-big-worker-1", "train")
    assert spec["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]
    assert spec["containers"][0]["env"][1] == {
        "name": "VC_MASTER_NUM",
        "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": "VC_MASTER_NUM"}},
    }


def test_svc_can_be_told_otherwise() -> None:
    flags = "[--publish-not-ready-addresses=true, --disable-network-policy=true, --inject-hosts-env=false]"
    job = two_tasks(f"{{svc: {flags}}}")
    made = objects_of(job)
    assert "NetworkPolicy" not in made
    assert made["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert env_of(pod_of(job, 0, 0)) == {}
    targets = [target for plugin in plugins_of(job).values() for target in plugin.made(job)]
    assert targets == [Target("v1", "ConfigMap", "team/train-svc"), Target("v1", "Service", "team/train")]


def test_a_host_name_of_the_template_stands_for_all() -> None:
    job = two_tasks("{svc: []}")
    job.spec.tasks[1].template["spec"] |= {"hostname": "boss", "subdomain": "here"}
    assert objects_of(job)["ConfigMap"]["data"]["VC_WORKER_HOSTS"] == "boss.here"
    assert pod_of(job, 1, 0)["spec"]["hostname"] == "boss"


def test_ssh_gives_one_pair_of_keys_to_all() -> None:
    job = two_tasks("{ssh: []}")
    secret = objects_of(job)["Secret"]
    data = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    assert set(data) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    assert data["id_rsa.pub"] == data["authorized_keys"]
    assert "Host train-worker-1\n  HostName train-worker-1.train\n  Port 22\n" in data["config"]
    assert objects_of(job, is_new=False) == {}  # and no other one later
    spec = pod_of(job, 0, 0)["spec"]
    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o600
    assert next(item["path"] for item in spec["volumes"][0]["secret"]["items"]) == ".ssh/id_rsa"
    mount = {"name": "train-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert spec["initContainers"][0]["volumeMounts"] == [mount]


def test_ssh_takes_given_keys_a_path_and_a_port() -> None:
    flags = "[--ssh-private-key=one, --ssh-public-key=two, --ssh-port=2222, --ssh-key-file-path=/home/u/.ssh]"
    job = two_tasks(f"{{ssh: {flags}}}")
    data = {name: base64.b64decode(text).decode() for name, text in objects_of(job)["Secret"]["data"].items()}
    assert (data["id_rsa"], data["authorized_keys"]) == ("one", "two")
    assert "Port 2222" in data["config"]
    volume = pod_of(job, 0, 0)["spec"]["volumes"][0]["secret"]
    assert volume["defaultMode"] == 0o644


def test_keys_are_a_pair() -> None:
    private, public = key_pair()
    assert private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    der = base64.b64decode("".join(private.splitlines()[1:-1]))
    n, e, d = _numbers(der)[1:4]
    assert (n.bit_length(), e) == (2048, 65537)
    assert pow(pow(1234567, e, n), d, n) == 1234567
    blob = base64.b64decode(public.split()[1])
    assert int.from_bytes(blob[-257:], "big") == n
    assert re.match(rb"\0\0\0\x07ssh-rsa\0\0\0\x03\x01\0\x01\0\0\x01\x01\0", blob)


def _numbers(der: bytes) -> list[int]:
    """The numbers of a DER sequence; every length in it is short, or takes one byte or two."""

    def length(at: int) -> tuple[int, int]:
        first = der[at]
        if first < 128:
            return first, at + 1
        width = first & 127
        return int.from_bytes(der[at + 1 : at + 1 + width], "big"), at + 1 + width

    assert der[0] == 0x30
    size, at = length(1)
    assert at + size == len(der)
    found = []
    while at < len(der):
        assert der[at] == 0x02
        size, at = length(at + 1)
        found.append(int.from_bytes(der[at : at + size], "big"))
        at += size
    return found


def test_pytorch_tells_ranks_and_the_master() -> None:
    job = two_tasks("{pytorch: [--master=boss, --worker=hand, --port=1234]}", "boss", "hand")
    master, worker = env_of(pod_of(job, 0, 0)), env_of(pod_of(job, 1, 1))
    shared = {"MASTER_ADDR": "train-boss-0.train", "MASTER_PORT": "1234", "WORLD_SIZE": "3"}
    assert master == {**shared, "RANK": "0"}
    assert worker == {**shared, "RANK": "2"}
    ports = pod_of(job, 1, 0)["spec"]["containers"][0]["ports"]
    assert ports == [{"name": "pytorchjob-port", "containerPort": 1234}]


def test_pytorch_workers_may_wait_for_the_master() -> None:
    job = two_tasks("{pytorch: [--wait-master-enabled=true, --wait-master-timeout=60, --wait-master-image=box]}")
    assert "wait-for-master" not in [each["name"] for each in pod_of(job, 0, 0)["spec"]["initContainers"]]
    (waiting,) = pod_of(job, 1, 0)["spec"]["initContainers"]
    assert (waiting["name"], waiting["image"]) == ("wait-for-master", "box")
    tries = "nc -z -w 2 train-master-0.train 23456 || echo > /dev/tcp/train-master-0.train/23456"
    assert tries in waiting["command"][2]  # netcat, or a shell that opens connections itself
    assert "60" in waiting["command"][2]


def test_mpi_tells_the_master_where_the_workers_are() -> None:
    job = two_tasks("{mpi: []}")
    assert env_of(pod_of(job, 0, 0)) == {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
    assert env_of(pod_of(job, 1, 0)) == {}
    for task in (0, 1):
        ports = pod_of(job, task, 0)["spec"]["containers"][0]["ports"]
        assert ports == [{"name": "mpijob-port", "containerPort": 22}]


def test_tensorflow_describes_the_cluster() -> None:
    job = two_tasks("{tensorflow: [--port=5000]}", "ps", "worker")
    assert json.loads(env_of(pod_of(job, 1, 1))["TF_CONFIG"]) == {
        "cluster": {
            "ps": ["train-ps-0.train:5000"],
            "worker": ["train-worker-0.train:5000", "train-worker-1.train:5000"],
        },
        "task": {"type": "worker", "index": 1},
    }


def test_ray_starts_a_head_and_workers() -> None:
    job = two_tasks("{ray: []}", "head", "worker")
    head, worker = pod_of(job, 0, 0)["spec"]["containers"][0], pod_of(job, 1, 0)["spec"]["containers"][0]
    assert head["command"][:2] == ["sh", "-c"]
    assert "--head" in head["command"][2]
    assert [port["containerPort"] for port in head["ports"]] == [6379, 8265, 10001]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=train-head-0.train:6379"]
    service = objects_of(job)["Service"]
    assert service["metadata"]["name"] == "train-head-svc"
    assert [port["name"] for port in service["spec"]["ports"]] == ["gcs", "dashboard", "client-server"]
    assert service["spec"]["selector"]["volcano.sh/task-spec"] == "head"


def test_hcclrank_counts_or_takes_the_rank_of_another_framework() -> None:
    job = two_tasks("{hcclrank: []}")
    ranks = [pod_of(job, task, index)["metadata"]["annotations"]["hccl/rankIndex"] for task, index in ((0, 0), (1, 1))]
    assert ranks == ["0", "2"]
    other = two_tasks("{hcclrank: [--master=none, --worker=none], pytorch: []}")
    assert pod_of(other, 1, 0)["metadata"]["annotations"]["hccl/rankIndex"] == "1"


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ("{nonsense: []}", 'spec.plugins.nonsense: expected one of env, .*, got "nonsense"'),
        ("{pytorch: [--port=abc]}", 'spec.plugins.pytorch: --port: expected a number, got "abc"'),
        ("{svc: [--inject-hosts-env=maybe]}", 'spec.plugins.svc: .*expected "true" or "false", got "maybe"'),
    ],
)
def test_plugins_that_cannot_be_used_are_refused(plugins: str, words: str) -> None:
    with pytest.raises(JobPluginError, match=words):
        plugins_of(two_tasks(plugins))


def test_all_plugins_of_volcano_are_there() -> None:
    known = {"env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"}
    assert known <= set(plugin_names())


def test_what_stands_beside_the_pods_goes_when_the_job_has_ended() -> None:
    world = World(simple(plugins="{svc: [], ssh: [--ssh-private-key=a, --ssh-public-key=b]}"))
    world.start()
    beside = world.controllers.beside
    assert set(beside) == {
        ("ConfigMap", "default/train-svc"),
        ("Service", "default/train"),
        ("NetworkPolicy", "default/train"),
        ("Secret", "default/train-ssh"),
    }
    assert world.job().status.controlled_resources == {"plugin-svc": "svc", "plugin-ssh": "ssh"}
    world.set_pods("Succeeded")
    assert beside == {}
    assert world.job().status.controlled_resources == {}
    assert world.phase() == "Completed"


def test_a_list_of_hosts_grows_with_the_job() -> None:
    world = World(simple(replicas=1, plugins="{svc: []}"))
    world.start()
    present = world.job()
    present.spec = simple(replicas=2, plugins="{svc: []}").spec
    world.cluster.replace_object(present)
    world.turn()
    assert world.controllers.beside["ConfigMap", "default/train-svc"]["data"]["VC_W_NUM"] == "2"


def test_a_task_of_no_pods_has_no_hosts_and_its_first_pod_still_a_name() -> None:
    job = two_tasks("{svc: [], pytorch: []}")
    job.spec.tasks[0].replicas = 0
    data = objects_of(job)["ConfigMap"]["data"]
    assert (data["master.host"], data["VC_MASTER_HOSTS"], data["VC_MASTER_NUM"]) == ("", "", "0")
    env = env_of(pod_of(job, 1, 1))
    assert (env["MASTER_ADDR"], env["WORLD_SIZE"], env["RANK"]) == ("train-master-0.train", "2", "2")
    job.spec.tasks[0].template["spec"]["hostname"] = "boss"
    assert objects_of(job)["ConfigMap"]["data"]["VC_MASTER_HOSTS"] == ""
    assert env_of(pod_of(job, 1, 0))["MASTER_ADDR"] == "boss.train"


def test_tensorflow_counts_every_replica_also_where_all_have_one_name() -> None:
    job = two_tasks("{tensorflow: [--port=5000]}", master="chief")
    job.spec.tasks[1].template["spec"]["hostname"] = "same"
    cluster = json.loads(env_of(pod_of(job, 0, 0))["TF_CONFIG"])["cluster"]
    assert cluster == {"worker": ["same.train:5000", "same.train:5000"], "chief": ["train-chief-0.train:5000"]}


def test_one_task_that_is_master_and_worker_is_counted_once() -> None:
    job = two_tasks("{pytorch: [--master=worker, --worker=worker]}")
    env = env_of(pod_of(job, 1, 1))
    assert (env["WORLD_SIZE"], env["RANK"], env["MASTER_ADDR"]) == ("2", "2", "train-worker-0.train")


def test_of_an_argument_that_is_given_twice_the_last_one_counts() -> None:
    assert env_of(pod_of(two_tasks("{pytorch: [--port=1, --port, '2']}"), 0, 0))["MASTER_PORT"] == "2"

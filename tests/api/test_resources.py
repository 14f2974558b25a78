"""Base units, and what a pod requests by the rules of Kubernetes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import (
    Container,
    Pod,
    PodSpec,
    Quantity,
    ResourceRequirements,
    UserError,
    decode,
    format_amount,
    is_best_effort,
    pod_request,
    pod_scoring_request,
    to_base,
)

MIB = 2**20
GIB = 2**30


def container(requests: dict[str, str] | None = None, *, sidecar: bool = False, **limits: str) -> Container:
    return Container(
        resources=ResourceRequirements(
            requests={name: Quantity(text) for name, text in (requests or {}).items()},
            limits={name: Quantity(text) for name, text in limits.items()},
        ),
        restart_policy="Always" if sidecar else "",
    )


def cpu(text: str, *, sidecar: bool = False) -> Container:
    return container({"cpu": text}, sidecar=sidecar)


def pod(*containers: Container, init: tuple[Container, ...] = (), overhead: dict[str, str] | None = None) -> Pod:
    amounts = {name: Quantity(text) for name, text in (overhead or {}).items()}
    return Pod(spec=PodSpec(containers=containers, init_containers=init, overhead=amounts))


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "1.5", 1500),
        ("cpu", "100u", 1),
        ("memory", "64Gi", 64 * GIB),
        ("memory", "1500m", 2),
        ("ephemeral-storage", "1k", 1000),
        ("storage", "1Gi", GIB),
        ("hugepages-2Mi", "4Mi", 4 * MIB),
        ("pods", "110", 110),
        ("attachable-volumes-csi-x", "39", 39),
        ("count/jobs.batch", "5", 5),
        ("nvidia.com/gpu", "8", 8000),
        ("example.com/foo", "500m", 500),
        ("requests.cpu", "2", 2000),
        ("limits.memory", "1Ki", 1024),
        ("requests.nvidia.com/gpu", "1", 1000),
    ],
)
def test_base_units(name: str, text: str, amount: int) -> None:
    assert to_base(name, Quantity(text)) == amount


def test_negative_amounts_are_refused() -> None:
    with pytest.raises(UserError, match='cpu: expected an amount of zero or more, such as "4", got "-1"'):
        to_base("cpu", Quantity("-1"))


def test_amounts_beyond_64_bits_are_refused() -> None:
    with pytest.raises(UserError, match=r'nvidia\.com/gpu: expected an amount that fits 64 bits.*got "1E"'):
        to_base("nvidia.com/gpu", Quantity("1E"))


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 8000, "8"),
        ("cpu", 500, "500m"),
        ("cpu", 1500, "1500m"),
        ("cpu", 0, "0"),
        ("memory", 64 * GIB, "64Gi"),
        ("memory", 1536 * MIB, "1536Mi"),
        ("memory", 10**9, "1G"),
        ("memory", 1000, "1k"),
        ("memory", 1, "1"),
        ("memory", 0, "0"),
        ("memory", -GIB, "-1Gi"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 8000, "8"),
    ],
)
def test_amounts_are_shown_as_people_write_them(name: str, amount: int, text: str) -> None:
    assert format_amount(name, amount) == text


@given(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 2**62))
def test_shown_amounts_are_exact(name: str, amount: int) -> None:
    assert to_base(name, Quantity(format_amount(name, amount))) == amount


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        pytest.param(pod(), {}, id="nothing"),
        pytest.param(pod(cpu("1"), cpu("2")), {"cpu": 3000}, id="containers add up"),
        pytest.param(pod(cpu("0")), {}, id="zeros are dropped"),
        pytest.param(pod(cpu("1"), init=(cpu("4"),)), {"cpu": 4000}, id="init container above the sum"),
        pytest.param(pod(cpu("5"), init=(cpu("4"),)), {"cpu": 5000}, id="init container below the sum"),
        pytest.param(pod(cpu("1"), init=(cpu("3"), cpu("4"))), {"cpu": 4000}, id="init containers run in turn"),
        pytest.param(pod(cpu("1"), init=(cpu("2", sidecar=True),)), {"cpu": 3000}, id="a sidecar stays"),
        pytest.param(
            pod(cpu("1"), init=(cpu("2", sidecar=True), cpu("4"))),
            {"cpu": 6000},
            id="an init container runs beside earlier sidecars",
        ),
        pytest.param(
            pod(cpu("1"), init=(cpu("4"), cpu("2", sidecar=True))),
            {"cpu": 4000},
            id="an init container does not run beside later sidecars",
        ),
        pytest.param(
            pod(cpu("1"), init=(cpu("2", sidecar=True), cpu("3", sidecar=True))),
            {"cpu": 6000},
            id="sidecars add up",
        ),
        pytest.param(
            pod(cpu("1"), init=(container({"memory": "1Gi"}),)),
            {"cpu": 1000, "memory": GIB},
            id="each resource on its own",
        ),
        pytest.param(
            pod(cpu("1"), init=(cpu("4"),), overhead={"cpu": "250m", "memory": "64Mi"}),
            {"cpu": 4250, "memory": 64 * MIB},
            id="overhead comes on top",
        ),
        pytest.param(pod(container(cpu="2")), {"cpu": 2000}, id="a limit implies the request"),
        pytest.param(pod(container({"cpu": "1"}, cpu="2")), {"cpu": 1000}, id="a request beats the limit"),
    ],
)
def test_request_of_a_pod(given_pod: Pod, expected: dict[str, int]) -> None:
    assert pod_request(given_pod) == {**expected, "pods": 1}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"requests": {"cpu": "8"}}, {"cpu": 8000, "memory": GIB}, id="request of the pod wins"),
        pytest.param({"requests": {"cpu": "1"}}, {"cpu": 1000, "memory": GIB}, id="even when lower"),
        pytest.param({"limits": {"cpu": "8"}}, {"cpu": 2000, "memory": GIB}, id="a limit does not override"),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": 2000, "memory": GIB, "hugepages-2Mi": 4 * MIB},
            id="a limit implies what no container mentions",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "8"}},
            {"cpu": 2000, "memory": GIB},
            id="devices are per container",
        ),
    ],
)
def test_request_of_a_pod_as_a_whole(resources: dict[str, object], expected: dict[str, int]) -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
    decoded = decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": containers, "resources": resources},
        }
    )
    assert isinstance(decoded, Pod)
    assert pod_request(decoded) == {**expected, "pods": 1}


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        pytest.param(pod(container()), {"cpu": 100, "memory": 200 * MIB}, id="both missing"),
        pytest.param(pod(cpu("2")), {"cpu": 2000, "memory": 200 * MIB}, id="memory missing"),
        pytest.param(pod(container(), cpu("2")), {"cpu": 2100, "memory": 400 * MIB}, id="per container"),
        pytest.param(pod(cpu("0")), {"memory": 200 * MIB}, id="an explicit zero stays zero"),
        pytest.param(pod(container(memory="1Gi")), {"cpu": 100, "memory": GIB}, id="a limit counts as the request"),
        pytest.param(
            pod(cpu("1"), init=(cpu("50m"),)),
            {"cpu": 1000, "memory": 200 * MIB},
            id="init containers count too",
        ),
    ],
)
def test_request_for_scoring(given_pod: Pod, expected: dict[str, int]) -> None:
    assert pod_scoring_request(given_pod) == {**expected, "pods": 1}


def test_a_negative_request_names_the_pod() -> None:
    bad = pod(cpu("-1"))
    bad.metadata.name = "train-0"
    with pytest.raises(UserError, match=r"^Pod default/train-0: cpu: expected an amount of zero or more"):
        pod_request(bad)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [({"pods": 1}, True), ({"pods": 1, "cpu": 0}, True), ({}, True), ({"pods": 1, "cpu": 1}, False)],
)
def test_best_effort_asks_for_nothing(request_: dict[str, int], expected: bool) -> None:
    assert is_best_effort(request_) is expected


amounts = st.integers(0, 5).map(str)
containers_of = st.lists(st.builds(cpu, amounts, sidecar=st.booleans()), max_size=4)


@given(st.lists(st.builds(cpu, amounts), max_size=3), containers_of)
def test_request_covers_every_moment_of_the_pods_life(main: list[Container], init: list[Container]) -> None:
    """Replay the start of the pod step by step; the request is the highest sum ever running."""

    def amount(c: Container) -> int:
        return c.resources.requests["cpu"].milli()

    running, highest = 0, 0
    for c in init:
        highest = max(highest, running + amount(c))
        running += amount(c) if c.restart_policy == "Always" else 0
    highest = max(highest, running + sum(map(amount, main)))
    assert pod_request(pod(*main, init=tuple(init))).get("cpu", 0) == highest

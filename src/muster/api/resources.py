"""Amounts of resources as integers in base units, and what a pod requests.

Base units: cpu in thousandths, memory and storage in bytes, pods and other objects counted, everything else (GPUs among
them) in thousandths. Amounts are never negative. What an object says of one resource, alone and added up over its
containers, fits 64 bits or is refused here; what the columns of a cycle make of large amounts stands in the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal

from muster.api.errors import Problem, Problems, UserError
from muster.api.objects.pod import Container, Pod, ResourceRequirements
from muster.api.quantity import INT64_MAX, Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
GPU: Final = "nvidia.com/gpu"
_GPU_SLICE: Final = "nvidia.com/mig-"
# What a container without a request counts when nodes are scored, as in kube-scheduler: else
# such pods would weigh nothing and all land on one node.
SCORING_DEFAULTS: Final = {CPU: Quantity("100m"), MEMORY: Quantity("200Mi")}
Unit = Literal["milli", "bytes", "count"]
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_COUNTS: Final = frozenset(
    {PODS, "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers"}
    | {"resourcequotas", "services.loadbalancers", "services.nodeports"}
)


def is_gpu(name: str) -> bool:
    """Tell whether a resource is a GPU or a slice of one."""
    return name == GPU or name.startswith(_GPU_SLICE)


@lru_cache(maxsize=4096)
def unit_of(name: str) -> Unit:
    """Return the base unit of a resource; names of quotas (``requests.cpu``) count as the resource."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain in _BYTES or plain.startswith("hugepages-") or plain.endswith("/requests.storage"):
        return "bytes"
    if plain in _COUNTS or plain.startswith(("attachable-volumes-", "count/")):
        return "count"
    return "milli"


def to_base(name: str, quantity: Quantity) -> int:
    """Return the amount in base units, rounded up. Raises UserError when negative or too large."""
    try:
        amount = quantity.milli() if unit_of(name) == "milli" else quantity.units()
    except ValueError as error:
        raise UserError(str(error), field=name) from None
    if amount < 0:
        raise UserError(f'expected an amount of zero or more, such as "4", got "{quantity}"', field=name)
    return amount


def to_base_all(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Return all amounts of a resource list in base units; zeros stay."""
    return {name: to_base(name, quantity) for name, quantity in quantities.items()}


_BINARY_SUFFIXES: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL_SUFFIXES: Final = ("E", "P", "T", "G", "M", "k")


def _format_bytes(amount: int) -> str:
    texts = [str(amount)]
    for base, suffixes in ((1024, _BINARY_SUFFIXES), (1000, _DECIMAL_SUFFIXES)):
        for power, suffix in zip(range(6, 0, -1), suffixes, strict=True):
            if amount and amount % base**power == 0:
                texts.append(f"{amount // base**power}{suffix}")
                break
    # Shortest exact text; binary before decimal, as memory is usually written.
    return min(texts[1:] + texts[:1], key=len)


def format_amount(name: str, amount: int) -> str:
    """Return an amount in base units as people write it: "8", "500m", "64Gi". Exact."""
    unit = unit_of(name)
    if unit == "bytes":
        return _format_bytes(amount) if amount >= 0 else f"-{_format_bytes(-amount)}"
    if unit == "count":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def amount_field(field: str, name: str) -> str:
    """The path of one amount in a resource list."""
    return f'{field}["{name}"]' if "." in name or "/" in name else f"{field}.{name}"


def amounts(field: str, quantities: Mapping[str, Quantity]) -> Problems:
    """A resource list."""
    for name, quantity in quantities.items():
        try:
            to_base(name, quantity)
        except UserError as error:
            yield Problem(
                amount_field(field, name),
                error.text,
                "must be greater than or equal to 0" if quantity.value < 0 else "",
            )


def pod_request(pod: Pod) -> dict[str, int]:
    """Return what the pod takes from a node, in base units; always with "pods": 1, else without zeros."""
    return _request(pod, scoring=False)


def pod_scoring_request(pod: Pod) -> dict[str, int]:
    """Return the request for scoring nodes: containers that ask for no cpu or memory count a little."""
    return _request(pod, scoring=True)


def is_best_effort(request: Mapping[str, int]) -> bool:
    """Whether nothing but the pod's own slot is requested."""
    return all(amount == 0 or name == PODS for name, amount in request.items())


def _request(pod: Pod, *, scoring: bool) -> dict[str, int]:
    try:
        total = _containers_request(pod, scoring=scoring)
        if pod.spec.resources is not None:
            _apply_pod_level(total, pod, pod.spec.resources)
        if pod.spec.overhead:
            _add(total, to_base_all(pod.spec.overhead))
        _check_sums(total)
    except UserError as error:
        raise error.located(subject=f"Pod {pod.key}") from None
    request = {name: amount for name, amount in total.items() if amount}
    request[PODS] = 1
    return request


def _containers_request(pod: Pod, *, scoring: bool) -> dict[str, int]:
    """Return what the containers need at the moment they need most.

    Sidecars (restartable init containers) run beside everything that starts after them; other init
    containers run one at a time, before the main containers.
    """
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _container_request(container, scoring=scoring))
    if not pod.spec.init_containers:
        return total
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        request = _container_request(container, scoring=scoring)
        if container.restart_policy == "Always":
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            _add(request, sidecars)
            _raise_to(peak, request)
    _add(total, sidecars)
    _raise_to(total, peak)
    return total


def _container_request(container: Container, *, scoring: bool) -> dict[str, int]:
    return to_base_all(_effective(container.resources, scoring=scoring))


def _effective(resources: ResourceRequirements, *, scoring: bool) -> Mapping[str, Quantity]:
    """Return requests with what a limit implies: an API server sets a missing request to the limit."""
    if not resources.limits and not scoring:
        return resources.requests
    defaults = SCORING_DEFAULTS if scoring else {}
    return {**defaults, **resources.limits, **resources.requests}


def _add(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _apply_pod_level(total: dict[str, int], pod: Pod, resources: ResourceRequirements) -> None:
    """Let the request of the pod as a whole stand in for the sum of its containers.

    A limit of the pod alone implies a request only for what no container mentions.
    """
    mentioned = _container_names((*pod.spec.containers, *pod.spec.init_containers))
    implied = {name: q for name, q in resources.limits.items() if name not in mentioned}
    for name, quantity in {**implied, **resources.requests}.items():
        if _is_pod_level(name):
            total[name] = to_base(name, quantity)


def _container_names(containers: Iterable[Container]) -> set[str]:
    return {name for c in containers for source in (c.resources.requests, c.resources.limits) for name in source}


def _is_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _check_sums(total: Mapping[str, int]) -> None:
    """Raise UserError when amounts that fit 64 bits each do not fit together."""
    for name, amount in total.items():
        if amount > INT64_MAX:
            text = f'expected amounts that fit 64 bits together, got "{format_amount(name, amount)}"'
            raise UserError(text, field=name)

"""Sub-group identity: which of a PodGroup's sub-group policies a pod belongs to, and how sub-groups are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.api import Pod, SubGroupPolicy, UserError

#: A sub-group without a size of its own is held together by one pod.
DEFAULT_SIZE = 1
#: What the columns hold; a label says more only by mistake.
MAX_INDEX = 2**31 - 1


def match_values(policy: SubGroupPolicy, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    """The pod's values for the policy's `matchLabelKeys`; None: the policy does not match the pod.

    A label that is missing or empty does not match, nor does a selector that is not valid.
    """
    selector = policy.label_selector
    if selector is not None and not selector.matches(labels):
        return None
    values = tuple(labels.get(key, "") for key in policy.match_label_keys)
    return None if "" in values else values


def first_match(policies: Sequence[SubGroupPolicy], labels: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Index of the first policy that matches a pod, and the pod's values; -1 and no values if none does."""
    for number, policy in enumerate(policies):
        values = match_values(policy, labels)
        if values is not None:
            return number, values
    return -1, ()


def subgroup_id(job: str, policy: str, values: Sequence[str]) -> str:
    """Name of a sub-group, unique in the cluster."""
    return f"{job}/{'-'.join((policy, *values))}"


def minimum_of(policy: SubGroupPolicy | None) -> int:
    """How many pods of a sub-group must run together."""
    if policy is None or policy.sub_group_size is None:
        return DEFAULT_SIZE
    return policy.sub_group_size


def match_index(values: Sequence[str]) -> int:
    """Position of a sub-group among those of its policy: its first label value, if that is a number."""
    text = values[0] if values else ""
    return min(int(text), MAX_INDEX) if text.isascii() and text.isdigit() else 0


def check_index(pod: Pod, policies: Sequence[SubGroupPolicy]) -> None:
    """Raise UserError for a pod whose label is a number beyond all positions."""
    number, values = first_match(policies, pod.metadata.labels)
    if values and match_index(values) == MAX_INDEX:
        key = policies[number].match_label_keys[0]
        raise UserError(
            f'expected a number below {MAX_INDEX}, or no number, for the position of a sub-group, got "{values[0]}"',
            subject=f"Pod {pod.key}",
            field=f'metadata.labels["{key}"]',
        )

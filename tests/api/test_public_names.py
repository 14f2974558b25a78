"""The names that other packages and plugins rely on stay exported."""

import muster.api

PROMISED = frozenset(
    {
        "BackendError",
        "Container",
        "HyperNode",
        "InternalError",
        "KaiPodGroup",
        "KaiQueue",
        "LabelSelector",
        "Loaded",
        "LoadedFiles",
        "MusterError",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PodGroup",
        "PriorityClass",
        "Quantity",
        "Queue",
        "ResourceQuota",
        "Source",
        "StorageClass",
        "UserError",
        "check",
        "decode",
        "encode",
        "format_amount",
        "format_quantity",
        "group_of",
        "is_best_effort",
        "is_preemptable",
        "load_files",
        "load_text",
        "parse_duration",
        "pod_index",
        "pod_request",
        "pod_scoring_request",
        "problems",
        "role_of",
        "to_base",
    }
)


def test_promised_names_are_exported() -> None:
    assert set(muster.api.__all__) >= PROMISED


def test_every_exported_name_exists_once() -> None:
    assert len(muster.api.__all__) == len(set(muster.api.__all__))
    for name in muster.api.__all__:
        assert hasattr(muster.api, name)

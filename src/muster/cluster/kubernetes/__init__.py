"""Kubernetes as a cluster: list and watch, bind, evict, nominate, statuses, leases."""

from muster.cluster.kubernetes.backend import KubernetesCluster
from muster.cluster.kubernetes.leases import LeaseOptions
from muster.cluster.kubernetes.shards import Shard

__all__ = ["KubernetesCluster", "LeaseOptions", "Shard"]

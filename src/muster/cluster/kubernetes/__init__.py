"""Kubernetes as a cluster: list and watch, bind, evict, nominate, statuses, leases.

In: objects over the API, decisions of the scheduler. Out: events, requests to the API server.
`client` speaks with the server, `sending` has what is on its way, `verbs` knows what each decision takes.
"""

from muster.cluster.kubernetes.backend import KubernetesCluster
from muster.cluster.kubernetes.client.leases import LeaseOptions
from muster.cluster.kubernetes.client.shards import Shard

__all__ = ["KubernetesCluster", "LeaseOptions", "Shard"]

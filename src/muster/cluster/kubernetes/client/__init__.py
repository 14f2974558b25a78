"""Speaking with an API server: connections, requests, kinds, watches, leases; and the part of a cluster that is ours.

In: a kubeconfig or the pod's account, and the shard. Out: events of objects, answers as bytes, `ApiError`.
Nothing here knows what the scheduler decides.
"""

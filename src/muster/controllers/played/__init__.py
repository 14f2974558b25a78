"""What others' operators do on a real cluster, played on the embedded one: pods of Deployments, PyTorchJobs and more.

Enters: workloads of others as documents. Leaves: the objects and pods that their operators would make, with the labels,
owners and numbers by which grouping and users know them. Images, services and volumes are nobody's business here.
"""

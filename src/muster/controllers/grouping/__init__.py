"""PodGroups for pods that have none, by what owns them.

Enters: pods, their owners as documents, and a table of kinds (`table.yaml`, and rows of one's own). Leaves: PodGroups
of Volcano's or of KAI's family, and the annotations by which pods name them. Knows no operator and runs none.
"""

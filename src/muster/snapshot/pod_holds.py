"""What pods depend on besides nodes: device claims, and the end of their namespace. Part of the task book.

What is noted here goes with the object: a claim's pods with the pods, a namespace with its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.api import Pod, ResourceClaim
from muster.snapshot.devices import Hold, claim_keys, claimed, hold_of


class PodHolds:
    """Claims, who names them, and namespaces that are being deleted.

    `allocates_claims`: whether the cluster gives devices to the pods that are bound.
    """

    def __init__(self, *, allocates_claims: bool) -> None:
        self._allocates_claims = allocates_claims
        self._claims: dict[str, ResourceClaim] = {}
        #: Pods by the claim that they name.
        self._claimants: dict[str, set[str]] = {}
        self._ending: set[str] = set()

    def set_claim(self, key: str, claim: ResourceClaim | None) -> Iterable[str]:
        """Take in a new or changed claim, or None for one that is gone; returns the pods that name it."""
        if claim is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = claim
        return sorted(self._claimants.get(key, ()))

    def set_namespace(self, name: str, *, is_ending: bool) -> bool:
        """Note whether a namespace is being deleted; returns whether that is news."""
        is_news = is_ending != (name in self._ending)
        (self._ending.add if is_ending else self._ending.discard)(name)
        return is_news

    def change(self, before: Pod, after: Pod) -> None:
        """Note which claims a pod names now."""
        if not before.spec.resource_claims and not after.spec.resource_claims:
            return
        named = set(claim_keys(after))
        for key in claim_keys(before):
            if key not in named and key in self._claimants:
                self._claimants[key].discard(before.key)
                if not self._claimants[key]:
                    del self._claimants[key]
        for key in named:
            self._claimants.setdefault(key, set()).add(after.key)

    def devices_of(self, pod: Pod) -> dict[str, int]:
        """What a pod's claims ask for, by device class."""
        if not pod.spec.resource_claims:
            return {}
        return claimed(self._claims[key] for key in claim_keys(pod) if key in self._claims)

    def hold_of(self, pod: Pod, *, foreign: bool) -> Hold | None:
        """Whether and why a pod is held back."""
        if foreign or pod.spec.node_name:
            return None
        if pod.namespace in self._ending:  # the server refuses every binding there
            return Hold("namespace", pod.namespace)
        return hold_of(pod, None if self._allocates_claims else self._claims)

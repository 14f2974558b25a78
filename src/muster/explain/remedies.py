"""What could let a job start, as something that can be tried: in words, and as a change of the cluster.

`advice` proposes remedies from the numbers of an explanation; `muster.whatif` tries them. A remedy whose words follow
from a reason alone names that reason: what is tried then is that the reason does not hold any more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobsEnd:
    """Jobs finish."""

    jobs: tuple[str, ...]
    #: Whether any one of them is enough.
    any_one: bool = False


@dataclass(frozen=True, slots=True)
class NodesCome:
    """Nodes like one that is there are added."""

    like: str
    count: int


@dataclass(frozen=True, slots=True)
class MinimumFalls:
    """The gang makes do with fewer pods."""

    to: int


@dataclass(frozen=True, slots=True)
class BoundRises:
    """Queues may hold more, or are promised more, of a resource: up to so much, in base units."""

    resource: str
    queues: tuple[tuple[str, int], ...]
    is_quota: bool = False


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """The pods ask for another resource of the same amount, or for no more than so much of each."""

    renamed: tuple[tuple[str, str], ...] = ()
    at_most: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ReasonGoes:
    """What a reason code says does not hold any more."""

    code: str


@dataclass(frozen=True, slots=True)
class Together:
    """A bound rises and nodes come: either alone is not enough."""

    bound: BoundRises
    nodes: NodesCome


Trial = JobsEnd | NodesCome | MinimumFalls | BoundRises | RequestChanges | ReasonGoes | Together


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that could help."""

    text: str
    trial: Trial

"""The built-in plugins: policy, one module each, or one package where a plugin has parts.

Enters: questions of the session, about a job, a queue, or all nodes at once. Leaves: answers, as the table of extension
points has them. A plugin changes nothing and talks to nobody.
"""

from muster.framework.plugin import Plugin
from muster.plugins.binpack import Binpack
from muster.plugins.capacity import Capacity
from muster.plugins.cdp import Cdp
from muster.plugins.conformance import Conformance
from muster.plugins.drf import Drf
from muster.plugins.elastic import Elastic
from muster.plugins.fairshare import FairShare
from muster.plugins.gang import Gang
from muster.plugins.minruntime import MinRuntime
from muster.plugins.network_topology_aware import NetworkTopologyAware
from muster.plugins.nodegroup import NodeGroup
from muster.plugins.nodeorder import NodeOrder
from muster.plugins.nodeplacement import NodePlacement
from muster.plugins.overcommit import Overcommit
from muster.plugins.pdb import Pdb
from muster.plugins.predicates import Predicates
from muster.plugins.priority import Priority
from muster.plugins.proportion import Proportion
from muster.plugins.propose import Propose
from muster.plugins.reservation import Reservation
from muster.plugins.resource_strategy_fit import ResourceStrategyFit
from muster.plugins.resourcequota import ResourceQuotas
from muster.plugins.resourcetype import ResourceType
from muster.plugins.shortestfirst import ShortestFirst
from muster.plugins.sla import Sla
from muster.plugins.taskorder import TaskOrder
from muster.plugins.tdm import Tdm

#: Every plugin that comes with Muster.
BUILTIN: tuple[type[Plugin], ...] = (
    Binpack,
    Capacity,
    Cdp,
    Conformance,
    Drf,
    Elastic,
    FairShare,
    Gang,
    MinRuntime,
    NetworkTopologyAware,
    NodeGroup,
    NodeOrder,
    NodePlacement,
    Overcommit,
    Pdb,
    Predicates,
    Priority,
    Proportion,
    Propose,
    ResourceQuotas,
    ResourceStrategyFit,
    Reservation,
    ResourceType,
    ShortestFirst,
    Sla,
    TaskOrder,
    Tdm,
)

__all__ = ["BUILTIN"]

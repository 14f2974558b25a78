"""The built-in plugins: policy, one module each, or one package where a plugin has parts, in a room by what they judge.

Enters: questions of the session, about a job, a queue, or all nodes at once. Leaves: answers, as the table of extension
points has them. A plugin changes nothing and talks to nobody.
"""

from muster.framework.plugin import Plugin
from muster.plugins.jobs.elastic import Elastic
from muster.plugins.jobs.gang import Gang
from muster.plugins.jobs.priority import Priority
from muster.plugins.jobs.reservation import Reservation
from muster.plugins.jobs.shortestfirst import ShortestFirst
from muster.plugins.jobs.sla import Sla
from muster.plugins.jobs.taskorder import TaskOrder
from muster.plugins.nodes.binpack import Binpack
from muster.plugins.nodes.network_topology_aware import NetworkTopologyAware
from muster.plugins.nodes.nodegroup import NodeGroup
from muster.plugins.nodes.nodeorder import NodeOrder
from muster.plugins.nodes.nodeplacement import NodePlacement
from muster.plugins.nodes.predicates import Predicates
from muster.plugins.nodes.propose import Propose
from muster.plugins.nodes.resource_strategy_fit import ResourceStrategyFit
from muster.plugins.nodes.resourcetype import ResourceType
from muster.plugins.nodes.tdm import Tdm
from muster.plugins.protection.cdp import Cdp
from muster.plugins.protection.conformance import Conformance
from muster.plugins.protection.lostwork import LostWork
from muster.plugins.protection.minruntime import MinRuntime
from muster.plugins.protection.pdb import Pdb
from muster.plugins.queues.capacity import Capacity
from muster.plugins.queues.drf import Drf
from muster.plugins.queues.fairshare import FairShare
from muster.plugins.queues.overcommit import Overcommit
from muster.plugins.queues.proportion import Proportion
from muster.plugins.queues.resourcequota import ResourceQuotas

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
    LostWork,
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

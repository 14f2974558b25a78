"""For tests of schedulers and plugins: builders, scenarios, a clock, and checks that every plugin must pass.

Enters: objects in a line each, scenarios in YAML, a plugin's class. Leaves: what differs from what is wanted, an error
that names the contract, or a control plane of real parts. Shipped; nothing of ours imports it.
"""

from muster.cluster.clock import VirtualClock as FakeClock
from muster.testing.builders import gang, node, pod, pod_group, priority_class, queue
from muster.testing.conformance import Outcome, check_plugin, fingerprint, one_cycle
from muster.testing.scenario import Scenario, load_scenario, run_scenario

__all__ = [
    "FakeClock",
    "Outcome",
    "Scenario",
    "check_plugin",
    "fingerprint",
    "gang",
    "load_scenario",
    "node",
    "one_cycle",
    "pod",
    "pod_group",
    "priority_class",
    "queue",
    "run_scenario",
]

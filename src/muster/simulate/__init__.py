"""Run the real scheduler on the embedded cluster until nothing changes, and report what it did.

In: objects of files or of a saved snapshot, a configuration, a timeline. Out: a `SimulationResult`, as plain data.
"""

from muster.simulate.report import JobReport, NodeReport, SimulationResult, WorkloadReport
from muster.simulate.run import Run, simulate

__all__ = ["JobReport", "NodeReport", "Run", "SimulationResult", "WorkloadReport", "simulate"]

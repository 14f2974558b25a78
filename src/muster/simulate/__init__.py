"""Run the real scheduler on the embedded cluster until nothing changes, and report what it did."""

from muster.simulate.report import JobReport, NodeReport, SimulationResult
from muster.simulate.run import simulate

__all__ = ["JobReport", "NodeReport", "SimulationResult", "simulate"]

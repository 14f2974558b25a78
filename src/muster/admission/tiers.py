"""Warnings about topology constraints that keep a job waiting for good: no tier, or one that nothing is called."""

from __future__ import annotations

from muster.admission.model import Caution, Findings, Known
from muster.api import NetworkTopology


def tier_cautions(field: str, topology: NetworkTopology | None, known: Known) -> Findings:
    """Say what a constraint lacks; an absent one lacks nothing."""
    if topology is None:
        return
    if topology.highest_tier_name:
        tiers = sorted({each.spec.tier_name for each in known.hyper_nodes().values() if each.spec.tier_name})
        if topology.highest_tier_name not in tiers:
            there = f"there are {', '.join(tiers)}" if tiers else "no HyperNode has a tierName"
            text = f'no HyperNode is of tier "{topology.highest_tier_name}"; {there}'
            yield Caution(f"{field}.highestTierName", f"{text}. The job waits until one is")
    elif topology.mode == "hard" and topology.highest_tier_allowed is None:
        text = "hard mode needs highestTierAllowed or highestTierName; the job waits without one"
        yield Caution(f"{field}.mode", text)

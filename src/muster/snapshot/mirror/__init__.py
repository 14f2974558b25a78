"""The mirror: a cluster's objects kept as growing columns, of which pictures are taken.

Enters: events, through the door (`Intake`), where one bad object costs one object and is put aside (`Quarantine`).
Leaves: a `Snapshot` for every cycle, which owns all of it that changes.
"""

from muster.snapshot.mirror.intake import Intake
from muster.snapshot.mirror.mirror import Mirror
from muster.snapshot.mirror.quarantine import Aside, Quarantine

__all__ = ["Aside", "Intake", "Mirror", "Quarantine"]

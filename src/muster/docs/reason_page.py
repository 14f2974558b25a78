"""The page on reason codes: why a node is out, or a job waits."""

from __future__ import annotations

import sys

from muster.docs.markdown import page, table
from muster.explain import nodes as _declares_reasons_too  # noqa: F401  # importing is enough
from muster.framework import Reason, all_reasons
from muster.scheduler import builtin_registry


def reason_page() -> str:
    """Return the page; importing the built-in plugins declares their reasons."""
    builtin_registry(third_party=False)
    rows = [
        (f"`{known.code}`", known.text, "yes" if known.eviction_helps else "no", known.remedy)
        for known in _shipped_reasons()
    ]
    return page(
        "Reason codes",
        "Codes are stable: they stand in JSON, in events and in the `reason` of a job. Texts may be reworded; "
        'they complete "3 nodes ..." or "the job waits: ...". Other packages\' plugins add codes of their own.',
        table(("code", "text", "could evicting pods help?", "what to do"), rows),
    )


def _shipped_reasons() -> list[Reason]:
    """Reasons that our own modules hold: a process may know more, of plugins that are installed beside."""
    own = {
        known.number
        for name, module in sorted(sys.modules.items())
        if name.startswith("muster.")
        for known in vars(module).values()
        if isinstance(known, Reason)
    }
    return [known for known in all_reasons() if known.number in own]

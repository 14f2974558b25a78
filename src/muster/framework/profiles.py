"""Ready configurations: files that can be printed, changed and given back, and used by name without a file.

A profile is text first, as what users copy is the text; it is parsed when somebody asks for it, and its names are
checked when a session opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import UserError
from muster.framework.config import DEFAULT_YAML, KAI_YAML, SchedulerConfig, load_config, parse_config

#: Says that a name is a profile, whatever files there are.
PREFIX: Final = "profile:"


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration with a name."""

    name: str
    #: One line for the list.
    summary: str
    text: str


_VOLCANO = """\
# What Volcano's users run: shares by weight, evictions node by node, topology where HyperNodes are there.
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""

#: By name, in the order of the list.
PROFILES: Final[dict[str, Profile]] = {
    known.name: known
    for known in (
        Profile("muster", "fair shares, gang-aware evictions, runtimes and topology; the default", DEFAULT_YAML),
        Profile("volcano", "queues by weight, evictions node by node, as Volcano is usually set up", _VOLCANO),
        Profile("kai", "fair shares and victims by scenarios, in KAI's order of actions", KAI_YAML),
    )
}


def profile_yaml(name: str) -> str:
    """Return the text of a profile. Raises UserError for a name that is none."""
    return _find(name).text


def profile(name: str) -> SchedulerConfig:
    """Return the configuration of a profile. Raises UserError for a name that is none."""
    return parse_config(_find(name).text, f"{PREFIX}{name}")


def find_config(given: str) -> SchedulerConfig:
    """Read what `--config` names: `profile:NAME`, a file, or the bare name of a profile if there is no such file."""
    if given.startswith(PREFIX):
        return profile(given.removeprefix(PREFIX))
    path = Path(given)
    if given in PROFILES and not path.is_file():
        return profile(given)
    if path.exists():
        return load_config(path)
    raise UserError(f"{given}: cannot read the configuration: no such file, and no profile; there are {_names()}")


def _find(name: str) -> Profile:
    known = PROFILES.get(name)
    if known is None:
        raise UserError(f"there is no profile {name!r}; there are {_names()}")
    return known


def _names() -> str:
    return ", ".join(sorted(PROFILES))

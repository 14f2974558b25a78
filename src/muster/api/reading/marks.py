"""Labels and annotations of scheduling that have no effect: values that nobody understands, and misspelt names.

On a cluster anybody may write anything there, so nothing of this is refused. What is surely an error of whoever runs a
simulation is refused in `validate_core`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from muster.api import names
from muster.api.errors import choices
from muster.api.fields import nearest
from muster.api.objects.meta import ObjectMeta
from muster.api.quantity import parse_seconds
from muster.api.validate_core import TRUTH

#: Words that two names have to share, more or less, to be taken for one another.
_ALIKE: Final = 0.82
_KNOWN: Final = frozenset(
    text for name, text in vars(names).items() if name.isupper() and isinstance(text, str) and "/" in text
)
_BARE: Final = frozenset({names.GPU_FRACTION, names.GPU_MEMORY, names.KAI_GROUP_NAME, names.SLA_WAITING_TIME})
_DOMAINS: Final = frozenset({"volcano.sh", "scheduling.volcano.sh", "scheduling.k8s.io", "kai.scheduler", "muster.sh"})


class _Value(NamedTuple):
    """What a label or an annotation may say."""

    is_understood: Callable[[str], bool]
    words: str


def _is_duration(text: str) -> bool:
    try:
        parse_seconds(text)
    except ValueError:
        return False
    return True


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _are_weights(text: str) -> bool:
    return all(_is_number(part) for part in text.split("/"))


def _is_positive(text: str) -> bool:
    return _is_duration(text) and parse_seconds(text) >= 0


def _one_of(*words: str) -> _Value:
    return _Value(words.__contains__, choices(words))


_DURATION: Final = _Value(_is_positive, 'a duration such as "90s" or "1h30m"')
_VALUES: Final[Mapping[str, _Value]] = {
    names.STALE_GRACE: _DURATION._replace(is_understood=_is_duration),  # below zero: for ever
    names.KAI_STALE_GRACE: _DURATION._replace(is_understood=_is_duration),
    names.KAI_PREEMPTION_DELAY: _DURATION,
    names.PREEMPT_MIN_RUNTIME: _DURATION,
    names.RECLAIM_MIN_RUNTIME: _DURATION,
    names.SLA_WAITING_TIME: _DURATION,
    names.COOLDOWN_TIME: _DURATION,
    names.EXPECTED_SECONDS: _Value(_is_number, 'a number of seconds such as "90"'),
    names.EXIT_CODE: _Value(str.isdecimal, 'an exit code such as "137"'),
    names.KAI_PREEMPTIBILITY: _one_of("preemptible", "non-preemptible", "semi-preemptible"),
    names.KAI_TASK_PRIORITY: _Value(_is_whole, 'a whole number such as "5"'),
    names.DISRUPTION_MODE: _one_of("Pod", names.WHOLE_GROUP),
    names.PREEMPTABLE: _Value(TRUTH.__contains__, '"true" or "false"'),
    names.HIERARCHY_WEIGHTS: _Value(_are_weights, 'numbers such as "1/8/2"'),
    names.NODE_GROUP_LIMITS: _Value(_is_mapping, 'JSON such as {"group1": {"cpu": "8"}}'),
    names.STRATEGY_WEIGHT: _Value(_is_mapping, 'JSON such as {"cpu": 1}'),
    names.STRATEGY_TYPE: _one_of("MostAllocated", "LeastAllocated"),
}


def mark_doubts(metadata: ObjectMeta, plain: set[str]) -> Iterator[tuple[str, str]]:
    """Yield a field and what may not be meant with it; names with nothing to ask about are added to those `plain`."""
    for part, marks in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key, text in marks.items():
            wanted = _VALUES.get(key)
            if wanted is not None:
                if not wanted.is_understood(text):
                    yield f'metadata.{part}["{key}"]', f'expected {wanted.words}, got "{text}"'
            elif meant := _meant(key):
                yield f'metadata.{part}["{key}"]', f"nothing reads it; did you mean {meant}?"
            else:
                plain.add(key)


@lru_cache(maxsize=4096)
def _meant(key: str) -> str:
    """The mark that was probably meant, "" if this one may be somebody else's."""
    domain, slash, name = key.rpartition("/")
    if key in _KNOWN or key in _BARE or (slash and domain not in _DOMAINS):
        return ""
    if not slash:
        return nearest(key, _BARE, _ALIKE)
    here = {known.rpartition("/")[2]: known for known in sorted(_KNOWN) if known.startswith(f"{domain}/")}
    return here.get(nearest(name, here, _ALIKE), "")

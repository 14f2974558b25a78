"""Amounts and durations as people say them: "8 GPUs", "64Gi memory", "2m 5s".

JSON keeps exact quantities and seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.api import format_amount

#: Resources whose plural is made with an s.
_COUNTED = {"cpu": "CPU", "gpu": "GPU", "pods": "pod"}

#: First words of reasons, which are written for several nodes.
_SINGULAR = {
    "are": "is",
    "belong": "belongs",
    "do": "does",
    "have": "has",
    "lack": "lacks",
    "wait": "waits",
}


def resource_word(name: str) -> str:
    """Return the short word for a resource: "GPU" for nvidia.com/gpu, else the name itself."""
    return _COUNTED.get(name.rpartition("/")[2] if name.endswith("/gpu") else name, name).removesuffix("s")


def amount_text(name: str, amount: int) -> str:
    """Return an amount with its resource: "8 GPUs", "500m CPU", "64Gi memory"."""
    shown = format_amount(name, amount)
    if shown.endswith("m") and amount >= 1000:
        shown = f"{amount / 1000:.3f}".rstrip("0")
    word = resource_word(name)
    plural = word in _COUNTED.values() and shown != "1" and not shown.endswith("m")
    return f"{shown} {word}{'s' if plural else ''}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return several amounts, scarce resources first: "8 GPUs, 16 CPUs and 64Gi memory"."""
    names = sorted(amounts, key=lambda name: ("/" not in name, name))
    return joined(amount_text(name, amounts[name]) for name in names) or "nothing"


def joined(parts: Iterable[str], word: str = "and") -> str:
    """Return a list in prose: "a, b and c"."""
    items = list(parts)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 node", "3 nodes"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def nodes_text(n: int, text: str) -> str:
    """Return a count of nodes with the text of a reason, which is written for several: "1 is cordoned"."""
    verb, space, rest = text.partition(" ")
    return f"{n} {_SINGULAR.get(verb, verb) if n == 1 else verb}{space}{rest}"


def reason_text(text: str) -> str:
    """Return the text of a reason, whether it is about a job or about nodes: "nodes lack free resources"."""
    return f"nodes {text}" if text.partition(" ")[0] in _SINGULAR else text


def duration_text(seconds: float) -> str:
    """Return a duration, to the second from one minute on: "0.5s", "45s", "2m 5s", "1h 3m"."""
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + "s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if minutes else f"{hours}h"

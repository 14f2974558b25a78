"""The flags of Volcano's scheduler, so that its command line starts `muster run` as it is.

Flags that have another name here are translated; those that change nothing that anybody relies on are dropped, with a
note that says why. A flag that would change decisions and cannot be followed stays as it is, and is refused like any
other that nobody knows. Go writes truth values as `--flag=false`; both ways are understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster.api import UserError
from muster.api.errors import seconds_of

#: Their name, and ours.
_RENAMED: Final = {
    "--scheduler-conf": "--config",
    "--listen-address": "--listen",
    "--lock-object-namespace": "--lease-namespace",
    "--leader-elect-resource-namespace": "--lease-namespace",
    "--leader-elect-resource-name": "--lease-name",
    "--tls-cert-file": "--cert",
    "--tls-private-key-file": "--key",
}
_PERIOD: Final = "--schedule-period"
_SHARD: Final = "--scheduler-sharding-name"
_SHARD_MODE: Final = "--scheduler-sharding-mode"
_DEFAULT_SHARD: Final = "volcano"
#: Flags that turn something on or off, and take no second argument.
_SWITCHES: Final = frozenset(
    {
        "--alsologtostderr",
        "--cache-dumper",
        "--csi-storage",
        "--disable-default-scheduler-config",
        "--enable-healthz",
        "--enable-metrics",
        "--enable-pprof",
        "--leader-elect",
        "--logtostderr",
        "--priority-class",
    }
)
#: Why a flag has no effect, by flag.
_HARMLESS: Final = {
    "--alsologtostderr": "the log always goes to the standard error stream",
    "--cache-dump-dir": "`muster snapshot save` writes what the scheduler sees",
    "--cache-dumper": "`muster snapshot save` writes what the scheduler sees",
    "--ca-cert-file": "clients are known by their tokens; see --metrics-auth",
    "--csi-storage": "what storage needs is always watched",
    "--disable-default-scheduler-config": "a wrong configuration is never replaced by a default",
    "--enable-healthz": "probes are always answered, where --listen says",
    "--enable-metrics": "metrics are always told, where --listen says",
    "--enable-pprof": "there are no profiles of Go here",
    "--feature-gates": "what there is, is always on",
    "--gate-removal-worker-num": "there are no workers to count",
    "--healthz-address": "probes are answered where --listen says",
    "--ignored-provisioners": "volumes per node are not counted",
    "--kube-api-burst": "requests are paced by what the server answers",
    "--kube-api-qps": "requests are paced by what the server answers",
    "--leader-elect-lease-duration": "the times of the lease are fixed",
    "--leader-elect-renew-deadline": "the times of the lease are fixed",
    "--leader-elect-resource-lock": "replicas always share a Lease",
    "--leader-elect-retry-period": "the times of the lease are fixed",
    "--logtostderr": "the log always goes to the standard error stream",
    "--minimum-feasible-nodes": "every node is looked at",
    "--minimum-percentage-nodes-to-find": "every node is looked at",
    "--node-worker-threads": "there are no threads to count",
    "--percentage-nodes-to-find": "every node is looked at",
    "--resource-sync-timeout": "nothing is decided before everything has been read",
    "--resync-period": "watches are followed without reading everything again",
    "--v": "one line is logged per decision",
    "-v": "one line is logged per decision",
}
#: What a flag must say to change nothing here.
_ONLY: Final = {"--default-queue": "default", "--priority-class": "true"}


def understood(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of `muster run` in its own words, and notes on flags without effect. Raises UserError."""
    ours: list[str] = []
    notes: list[str] = []
    shard = {_SHARD: "", _SHARD_MODE: "none"}
    for name, value, written in _flags(arguments):
        if name in _ONLY:
            if value != _ONLY[name]:
                raise UserError(f'{name}: expected "{_ONLY[name]}", got "{value}"; nothing else is supported here')
            notes.append(f"{name} has no effect: that is how it is here")
        elif name in _HARMLESS:
            notes.append(f"{name} has no effect: {_HARMLESS[name]}")
        elif name in _RENAMED:
            ours += [_RENAMED[name], value]
        elif name == _PERIOD:
            ours += ["--period", f"{seconds_of(_PERIOD, value):g}"]
        elif name in shard:
            shard[name] = value
        elif name == "--leader-elect" and "=" in written[0]:
            ours.append("--leader-elect" if _is_true(name, value) else "--no-leader-elect")
        else:
            ours += written
    if shard[_SHARD_MODE] != "none":
        ours += ["--shard", shard[_SHARD] or _DEFAULT_SHARD, "--shard-mode", shard[_SHARD_MODE]]
    elif shard[_SHARD]:
        notes.append(f"{_SHARD} has no effect: {_SHARD_MODE} is none")
    return ours, list(dict.fromkeys(notes))


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Flags of Volcano's with their values and as they were written; anything else by itself, without a value."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        name, given, value = word.partition("=")
        if not _is_theirs(name):
            place += 1
            yield word, "", [word]
        elif given or name in _SWITCHES:
            place += 1
            yield name, value if given else "true", [word]
        elif place + 1 == len(arguments):
            raise UserError(f"{name}: expected a value, got nothing")
        else:
            place += 2
            yield name, arguments[place - 1], [word, arguments[place - 1]]


def _is_theirs(name: str) -> bool:
    return name in _RENAMED or name in _HARMLESS or name in _ONLY or name in (_PERIOD, _SHARD, _SHARD_MODE, *_SWITCHES)


def _is_true(name: str, value: str) -> bool:
    if value.lower() in ("true", "t", "1"):
        return True
    if value.lower() in ("false", "f", "0"):
        return False
    raise UserError(f'{name}: expected true or false, got "{value}"')

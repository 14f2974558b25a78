"""Where the network is described: the ConfigMap of Volcano's controllers, read as it is.

    networkTopologyDiscovery:
      - source: label
        enabled: true
        config:
          networkTopologyTypes:
            fabric: [{nodeLabel: example.com/spine}, {nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
      - source: ufm
        enabled: true
        interval: 10m
        credentials: {secretRef: {name: ufm, namespace: network}}
        config: {endpoint: https://ufm.example.com}

`label` is kept up to date with every node; `ufm` (NVIDIA's fabric manager) and `http` (anything that answers with a
tree of switches, see `switches`) are asked again after each interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec
import yaml

from muster.api import KubeObject, UserError, parse_duration
from muster.controllers.contract import Ask

#: The key of the ConfigMap that holds the text.
CONFIG_KEY: Final = "volcano-controller.conf"
LABEL: Final = "label"
UFM: Final = "ufm"
HTTP: Final = "http"
_ENTRIES: Final = "networkTopologyDiscovery"
_TYPES: Final = "networkTopologyTypes"
_INTERVAL_SECONDS: Final = 3600.0
_LEAST_SECONDS: Final = 1.0
_LONGEST_TYPE: Final = 20
_HOST: Final = "kubernetes.io/hostname"
_UFM_PATH: Final = "/ufmRest/resources/ports"


class ConfigMap(KubeObject):
    """Texts by name."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ConfigMap"

    data: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """One description of the network."""

    name: str
    #: For `label`: label keys from the narrowest to the widest, by the name of the network.
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: For the others: whom to ask, and how often.
    question: Ask | None = None
    interval_s: float = _INTERVAL_SECONDS


def sources_of(config: ConfigMap) -> list[Source]:
    """The sources that are turned on. Raises UserError that names the field."""
    text = config.data.get(CONFIG_KEY, "")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as fault:
        raise UserError(f"expected YAML: {fault}", field=CONFIG_KEY) from None
    found = []
    for place, entry in enumerate(_list(_mapping(document or {}, "").get(_ENTRIES) or [], _ENTRIES)):
        at = f"{_ENTRIES}[{place}]"
        fields = _mapping(entry, at)
        if fields.get("enabled") is True:
            found.append(_source(fields, at))
    names = [source.name for source in found]
    for name in {name for name in names if names.count(name) > 1}:
        raise UserError(f'expected each source once, got "{name}" twice', field=_ENTRIES)
    return found


def _source(entry: Mapping[str, Any], at: str) -> Source:  # Any: a document
    name = entry.get("source")
    config = _mapping(entry.get("config") or {}, f"{at}.config")
    if name == LABEL:
        return Source(LABEL, dict(_networks(config, f"{at}.config.{_TYPES}")))
    if name not in (UFM, HTTP):
        raise UserError(f'expected "{LABEL}", "{UFM}" or "{HTTP}", got "{name}"', field=f"{at}.source")
    question = Ask(name, _url(name, config, f"{at}.config"), _secret(entry, at), _verify(config, f"{at}.config"))
    if name == UFM and not question.secret:
        raise UserError("expected a Secret with username and password, got none", field=f"{at}.credentials.secretRef")
    return Source(name, question=question, interval_s=_interval(entry.get("interval"), f"{at}.interval"))


def _networks(config: Mapping[str, Any], at: str) -> Iterator[tuple[str, Sequence[str]]]:  # Any: a document
    for name, labels in _mapping(config.get(_TYPES) or {}, at).items():
        if len(str(name)) > _LONGEST_TYPE:
            raise UserError(f'expected a name of at most {_LONGEST_TYPE} characters, got "{name}"', field=at)
        keys = [str(_mapping(each, f"{at}.{name}").get("nodeLabel") or "") for each in _list(labels, f"{at}.{name}")]
        if not all(keys) or len(set(keys)) != len(keys):
            raise UserError("expected a nodeLabel in each entry, each once, the widest first", field=f"{at}.{name}")
        yield str(name), [key for key in reversed(keys) if key != _HOST]


def _url(name: str, config: Mapping[str, Any], at: str) -> str:  # Any: a document
    given = config.get("endpoint")
    if not isinstance(given, str) or not given:
        raise UserError('expected an address such as "https://ufm.example.com"', field=f"{at}.endpoint")
    address = given if given.startswith(("http://", "https://")) else f"https://{given}"
    return address.rstrip("/") + _UFM_PATH if name == UFM else address


def _secret(entry: Mapping[str, Any], at: str) -> str:  # Any: a document
    at = f"{at}.credentials"
    reference = _mapping(_mapping(entry.get("credentials") or {}, at).get("secretRef") or {}, f"{at}.secretRef")
    if not reference:
        return ""
    name, namespace = reference.get("name"), reference.get("namespace")
    if not name or not namespace:
        raise UserError("expected name and namespace", field=f"{at}.secretRef")
    return f"{namespace}/{name}"


def _verify(config: Mapping[str, Any], at: str) -> bool:  # Any: a document
    given = config.get("insecureSkipVerify", False)
    if not isinstance(given, bool):
        raise UserError(f'expected true or false, got "{given}"', field=f"{at}.insecureSkipVerify")
    return not given


def _interval(given: object, at: str) -> float:
    if given is None:
        return _INTERVAL_SECONDS
    try:
        seconds = parse_duration(str(given))
    except ValueError as fault:
        raise UserError(str(fault), field=at) from None
    return max(seconds, _LEAST_SECONDS) if seconds > 0 else _INTERVAL_SECONDS


def _mapping(value: object, at: str) -> Mapping[str, Any]:  # Any: a document
    if not isinstance(value, dict):
        raise UserError(f"expected fields with values, got {type(value).__name__}", field=at or CONFIG_KEY)
    return value


def _list(value: object, at: str) -> list[Any]:  # Any: a document
    if not isinstance(value, list):
        raise UserError(f"expected a list, got {type(value).__name__}", field=at)
    return value

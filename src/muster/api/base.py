"""What every Kubernetes object type here is made of.

Types are msgspec structs: attributes in snake_case, documents in camelCase, unknown fields ignored as an
API server with a newer schema would. Sequences are read-only by type, because objects are shared between
the cluster, the mirror and reports; whoever changes an object makes a copy.
`decode_hook` and `encode_hook` carry the one type msgspec does not know, `Quantity`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from muster.api.quantity import Quantity

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Timestamp = Annotated[datetime, Meta(tz=True)]
ResourceList = dict[str, Quantity]


# gc=False: objects are trees, and a hundred thousand pods would slow down every garbage collection.
class K8sModel(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of all structs."""


def decode_hook(wanted: type, given: object) -> object:
    """Decode what msgspec does not know; a ValueError becomes an error with the path."""
    if wanted is Quantity:
        return Quantity.of(given)
    raise TypeError(f"no decoder for {wanted!r}")


def encode_hook(given: object) -> object:
    """Encode what msgspec does not know."""
    if isinstance(given, Quantity):
        return given.text
    raise TypeError(f"no encoder for {type(given)!r}")

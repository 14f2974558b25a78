"""Processes that stay: the scheduler as a service, and the webhook server.

Enters: a live cluster, options, requests over HTTP. Leaves: cycles as soon as there is something to decide, answers to
probes, scrapes and API servers, a configuration that is read again when it changes, and a clean end.
"""

from muster.server.service import Service, ServiceOptions

__all__ = ["Service", "ServiceOptions"]

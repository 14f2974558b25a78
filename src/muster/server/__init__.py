"""The scheduler as a service: cycles when something happens, health, metrics, reloading, a clean end."""

from muster.server.service import Service, ServiceOptions

__all__ = ["Service", "ServiceOptions"]

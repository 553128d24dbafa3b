"""The API client: one aiohttp session, no typed models, every wait bounded, every body read."""

from hami_operator.cluster.kubernetes.client import Client
from hami_operator.cluster.kubernetes.connection import Connection

__all__ = ["Client", "Connection"]

"""kopf: who calls us when Nodes and pending pods change. Nothing is decided or written here."""

from hami_operator.handlers.registry import Intake, build
from hami_operator.handlers.serving import serve

__all__ = ["Intake", "build", "serve"]

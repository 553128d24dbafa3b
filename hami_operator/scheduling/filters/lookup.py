"""How missing objects are told, in the words of the API."""

from __future__ import annotations


def no_claim(name: str) -> str:
    """A PersistentVolumeClaim is missing."""
    return f'persistentvolumeclaim "{name}" not found'


def no_volume(name: str) -> str:
    """A PersistentVolume is missing."""
    return f'persistentvolume "{name}" not found'


def no_class(name: str) -> str:
    """A StorageClass is missing."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def no_mode(name: str) -> str:
    """A StorageClass does not say when its volumes are bound."""
    return f'VolumeBindingMode not set for StorageClass "{name}"'

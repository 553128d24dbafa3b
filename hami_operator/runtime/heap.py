"""The garbage collector and a heap that is large and mostly stays."""

from __future__ import annotations

import gc


def settle() -> None:
    """Let the garbage collector leave alone what is there now.

    What is known of a large cluster is a million objects that live on. Each full collection
    walks them all, which stops everything for a quarter of a second and frees nothing. What is
    replaced later is freed by its reference count as ever; only a cycle of these very objects
    would stay, and the values that the scheduler keeps form none.
    """
    gc.collect()  # what is frozen as garbage stays for ever
    gc.freeze()

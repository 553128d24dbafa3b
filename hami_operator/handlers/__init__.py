"""kopf handlers: unpack, call one thing, return."""

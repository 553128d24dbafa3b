"""Commands; the only reader of arguments and environment."""

"""One file per vendor; only the registry imports them."""

"""HTTP routes of our own: health and metrics."""

"""Vendors as data, and the engine that serves all of them; pure."""

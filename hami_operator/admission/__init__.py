"""Pods on their way in: what is changed and what is refused; pure."""

"""A fleet of simulated device plugins, for the demo, tests and load."""

"""Commands: a thin shell over the simulator, the registry and explanations."""

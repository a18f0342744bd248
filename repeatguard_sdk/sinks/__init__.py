"""Where events go; each sink in a file of its own, loaded when it is imported."""

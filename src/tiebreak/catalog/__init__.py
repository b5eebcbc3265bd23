"""Built-in problems with known answers."""

"""Penalties: their terms, prox, joint prox with a set, and prox with a cut."""

"""The choice of methods, and the refinement to full accuracy."""

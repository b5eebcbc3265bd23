"""Which method when, and the refinement to full accuracy."""

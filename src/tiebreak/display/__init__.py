"""Everything visual: plots, HTML pages, notebook output and progress."""

"""Everything visual: pictures, HTML pages, notebook output and progress."""

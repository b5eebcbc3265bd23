"""The one loop: run, record, stop, save, report."""

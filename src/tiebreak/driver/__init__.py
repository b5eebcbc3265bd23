"""The loop that runs every method, and what it records, saves and reports."""

"""Arrays of any library, input checks, and matrices as their two products."""

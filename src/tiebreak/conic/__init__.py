"""Any convex constraint and as many levels as you like, by a conic solver with our own bounds."""

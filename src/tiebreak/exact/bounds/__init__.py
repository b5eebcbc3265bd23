"""What is proved about a computed point, rounding included: intervals for f* and g*."""

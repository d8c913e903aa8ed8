"""What the papers argue against, for comparison; one algorithm a file."""

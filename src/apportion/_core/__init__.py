"""The algorithm: propagate, project, repeat, decode, refine."""

"""A table and what is known of its rows in, a labeled table out."""

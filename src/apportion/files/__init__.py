"""Tables from files and into files."""

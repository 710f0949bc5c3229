"""Reading tables, writing files whole, archives."""

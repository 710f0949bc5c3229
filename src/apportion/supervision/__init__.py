"""What people know of class totals, as bounds per bag."""

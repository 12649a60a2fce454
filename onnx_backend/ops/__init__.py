"""The operators, one kind a module; importing one enters its rows in the table."""

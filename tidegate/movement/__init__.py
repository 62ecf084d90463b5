"""Moving and deleting data: locations, the data mover, two-phase deletion, the trash, audits of what lies where."""

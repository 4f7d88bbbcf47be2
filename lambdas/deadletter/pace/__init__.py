"""How fast calls may go to one dependency."""

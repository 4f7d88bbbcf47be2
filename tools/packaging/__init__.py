"""How the wheel is built: what hatchling runs."""

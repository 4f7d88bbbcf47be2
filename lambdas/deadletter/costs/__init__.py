"""What the app costs: AWS's list prices, and what is used of what they are for."""

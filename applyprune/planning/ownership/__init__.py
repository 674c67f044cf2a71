"""Who owns an object and each of its fields."""

"""Events → what a person or a program reads."""

"""The program of the embedded control plane: built once, and cached."""

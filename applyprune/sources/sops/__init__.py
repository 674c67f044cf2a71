"""What SOPS encrypts, and with which keys it decrypts. This package runs nothing."""

"""What goes wrong in the world: crashes, lost replies, strangers, servers that answer wrongly."""

"""What any controller needs: queue, watches, health, metrics, Events."""

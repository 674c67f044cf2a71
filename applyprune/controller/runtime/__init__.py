"""What any controller needs: queue, watches, leader election, metrics, Events."""

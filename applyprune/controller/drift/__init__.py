"""What a Bundle does about drift, and when it stops fighting."""

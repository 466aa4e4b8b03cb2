"""What is written about agents, skills and remote agents, as plain data."""

"""Suspended calls: tickets, permissions, what a decision means, remembered answers."""

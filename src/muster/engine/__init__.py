"""What actions are made of: boards, placement, lines of queues and jobs."""

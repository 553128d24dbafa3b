"""asyncio: tasks, time-outs, retries; no decisions."""

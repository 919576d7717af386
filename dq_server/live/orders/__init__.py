"""What agents are ordered to do, again if need be, until their heartbeats show it."""

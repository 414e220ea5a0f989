"""The reference engine with a small real model, and an agent that plays a session before it."""

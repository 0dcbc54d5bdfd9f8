"""The job process: one fresh interpreter per job and node, started and watched by the agent."""

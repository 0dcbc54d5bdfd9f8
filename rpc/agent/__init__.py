"""The agent: a small unattended process that holds the key and the port, starts job processes and keeps what they leave."""

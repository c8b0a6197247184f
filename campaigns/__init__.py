"""Long runs that show what the package stands: deliberate defects and damaged inputs."""

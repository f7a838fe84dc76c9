"""What `kerncap.pytest_plugin` brings to a test run, each part imported when it is asked for."""

"""A project's way to its first night: detecting, writing, setting up."""

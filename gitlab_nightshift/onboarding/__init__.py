"""How a project gets its first night: what is found in it, what is written, what is set up."""

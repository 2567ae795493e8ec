"""How a project gets its first night: what is detected, written and set up."""

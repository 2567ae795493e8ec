((program (assignment left: (constant) @constant)) (#match? @constant "^[A-Z][A-Z0-9_]+$"))

; Names that others may use: @listed by an export, @constant at the top, @field of a public class.

((program (assignment left: (constant) @constant)) (#match? @constant "^[A-Z][A-Z0-9_]+$"))

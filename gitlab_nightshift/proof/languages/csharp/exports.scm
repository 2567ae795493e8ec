; Names that others may use: @listed by an export, @constant at the top, @field of a public class.

((field_declaration (modifier) @modifier (variable_declaration (variable_declarator name: (_) @field)))
  (#eq? @modifier "public"))

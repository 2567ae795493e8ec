; Names that others may use: @listed by an export, @constant at the top, @field of a public class.

((field_declaration (modifiers) @modifiers declarator: (variable_declarator name: (_) @field))
  (#match? @modifiers "\\bpublic\\b"))

; Names that others may use: @listed by an export, @constant at the top, @field of a public class.

((source_file [
  (const_declaration (const_spec name: (identifier) @constant))
  (var_declaration (var_spec name: (identifier) @constant))
  (var_declaration (var_spec_list (var_spec name: (identifier) @constant)))])
  (#match? @constant "^[A-Z]"))

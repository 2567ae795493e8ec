((source_file [
  (const_declaration (const_spec name: (identifier) @constant))
  (var_declaration (var_spec name: (identifier) @constant))
  (var_declaration (var_spec_list (var_spec name: (identifier) @constant)))])
  (#match? @constant "^[A-Z]"))

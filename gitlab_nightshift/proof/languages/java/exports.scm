((field_declaration (modifiers) @modifiers declarator: (variable_declarator name: (_) @field))
  (#match? @modifiers "\\bpublic\\b"))
